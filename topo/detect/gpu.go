package detect

// What NVIDIA's driver knows about the GPUs of a machine, behind an interface that tests replace, and what NCCL makes
// of it. nvml_cgo.go asks the driver.

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoGPU is matched by the error of Load on a machine whose GPUs it cannot see.
var ErrNoGPU = errors.New("no usable NVIDIA GPU")

// NoGPUError says why there is no GPU to describe. It matches ErrNoGPU.
type NoGPUError struct {
	OnPCI int   // NVIDIA GPUs on the PCI bus
	Cause error // why the driver could not be asked; nil when it was, and knows none
}

func (e *NoGPUError) Error() string {
	seen, driver := "none on the PCI bus", "NVIDIA's driver knows none"
	hint := "for another machine give its topology file in NCCL_TOPO_FILE"
	if e.OnPCI > 0 {
		seen = fmt.Sprintf("%d on the PCI bus", e.OnPCI)
		hint = "is the driver installed, and are its libraries and devices visible here (container)?"
	}
	if e.Cause != nil {
		driver = fmt.Sprintf("NVIDIA's driver cannot be asked (%v)", e.Cause)
	}
	return fmt.Sprintf("%v: %s, and %s; %s", ErrNoGPU, seen, driver, hint)
}

// Is reports a match with ErrNoGPU.
func (e *NoGPUError) Is(target error) bool { return target == ErrNoGPU }

func (e *NoGPUError) Unwrap() error { return e.Cause }

// gpusOnPCI counts NVIDIA's display controllers.
func gpusOnPCI(fs sysfs) int {
	const dir, nvidia, display = "/sys/bus/pci/devices", "0x10de", "0x03"
	n := 0
	for _, busID := range fs.list(dir) {
		if fs.read(dir, busID, "vendor") == nvidia && strings.HasPrefix(fs.read(dir, busID, "class"), display) {
			n++
		}
	}
	return n
}

// gdr reports whether a NIC may access the memory of this GPU (GPUDirect RDMA). NCCL asks CUDA for that attribute, from
// CUDA 11.3 on. The driver has it for all GPUs but GeForce.
func (d *NVMLDevice) gdr() bool { return !strings.Contains(d.Name, "GeForce") }

// linkSpeed is the PCIe speed as sysfs would write it.
func (d *NVMLDevice) linkSpeed() string {
	speeds := [...]string{1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
	if d.LinkGen < 1 || d.LinkGen >= len(speeds) { // unknown
		return "16.0 GT/s"
	}
	return speeds[d.LinkGen] + " GT/s PCIe"
}

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

// hiddenNVLinkPeer is the address that NCCL uses for the other end of an NVLink if the driver does not tell it, as in a
// virtual machine. NCCL takes such an end for an NVSwitch.
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
