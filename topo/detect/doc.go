// Package detect finds the topology of the machine it runs on. Load reads a topology file where NCCL would look for
// one. Without one, it describes the machine from sysfs and NVIDIA's driver.
//
// All paths are below a root directory that a test can fake, and NVML is an interface. Only nvml_cgo.go needs cgo: it
// loads the driver's library for the length of one call. The package keeps nothing between calls.
package detect
