package detect

import "strings"

// NVML tells what only NVIDIA's driver knows about the GPUs of this machine. NVMLLibrary is the real one.
type NVML interface {
	// Devices lists the GPUs by NVML index. No GPU is an empty list; an error says why the driver cannot be asked.
	Devices() ([]NVMLDevice, error)
}

// NVMLDevice is one GPU as the driver sees it.
type NVMLDevice struct {
	Index     int    // NVML index, from 0; NCCL's dev
	Name      string // product name
	BusID     string // PCI address, lower case: 0000:3b:00.0
	Vendor    uint16
	Device    uint16
	SubVendor uint16
	SubDevice uint16

	ComputeCap int // major*10 + minor: 90 for Hopper
	LinkGen    int // PCIe generation 1..6 that GPU and slot both manage; 0 unknown
	LinkWidth  int // PCIe lanes in use; 0 unknown

	// NVLinks has the PCI address at the other end of each NVLink that is up and can carry P2P traffic, in link
	// order. "" is an end that this machine cannot see, as in a virtual machine.
	NVLinks []string

	C2CLinks int // active NVLink-C2C links to the CPU
	C2CMBps  int // bandwidth of each, MB/s
}

// hiddenNVLinkPeer is what NCCL takes for the address of an NVLink's other end when the driver does not show it.
const hiddenNVLinkPeer = "fffffff:ffff:ff"

// nvLinkSlots is the number of NVLinks NCCL asks a GPU for: Pascal 4, Volta 6, Ampere 12, Hopper and later 18.
func nvLinkSlots(computeCap int) int {
	switch {
	case computeCap < 60:
		return 0
	case computeCap < 70:
		return 4
	case computeCap < 80:
		return 6
	case computeCap < 90:
		return 12
	}
	return 18
}

// nvmlBusID turns an address as NVML writes it into the form of sysfs, and "" for one that is not printable.
func nvmlBusID(s string) string {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	return strings.ToLower(s)
}
