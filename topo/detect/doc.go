// Package detect finds the topology of the machine it runs on: Load looks for a file where NCCL would and else describes
// the machine itself, from sysfs and NVIDIA's driver. NICs lists the network ports alone.
//
// All paths are below a root directory that a test can fake, and NVML is an interface. nvml_cgo.go is the only file
// that needs cgo: it loads the driver's library for the length of one call. Nothing is kept between calls.
package detect
