package detect

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
func gpusOnPCI(fs *sysfs) int {
	const dir, nvidia, display = "/sys/bus/pci/devices", "0x10de", "0x03"
	n := 0
	for _, busID := range fs.list(dir) {
		if fs.read(dir, busID, "vendor") == nvidia && strings.HasPrefix(fs.read(dir, busID, "class"), display) {
			n++
		}
	}
	return n
}

// gdr reports whether NICs may reach the memory of this GPU; GeForce drivers do not allow it.
func (d *NVMLDevice) gdr() bool { return !strings.Contains(d.Name, "GeForce") }

// linkSpeed is the PCIe speed as sysfs would write it.
func (d *NVMLDevice) linkSpeed() string {
	speeds := [...]string{1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
	if d.LinkGen < 1 || d.LinkGen >= len(speeds) { // unknown
		return "16.0 GT/s"
	}
	return speeds[d.LinkGen] + " GT/s PCIe"
}
