package doctor

import (
	"context"
	"runtime"
	"strings"
)

// examineCPU names who made the CPUs, for Across to compare nodes by. NCCL's estimates and its search for channels
// depend on it.
func (d *doctor) examineCPU(context.Context) []Finding {
	_, rest, is := strings.Cut("\n"+textOf(d.proc, "cpuinfo"), "\nvendor_id")
	vendor, _, _ := strings.Cut(rest, "\n")
	vendor = strings.Trim(vendor, "\t :")
	here := processor(machines[runtime.GOARCH])
	if !is || vendor == "" {
		return []Finding{fine("%s", here)} // only x86 names a vendor
	}
	return []Finding{fine("%s, %s", here, vendor)}
}
