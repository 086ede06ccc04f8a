package doctor

import (
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// unusableSymKernel finds an NCCL_SYM_KERNEL that a release does not take as a kernel, or that fails collectives.
func (d *doctor) unusableSymKernel(version nccl.Version, what string) []Finding {
	set, ok := d.env.Vars[symKernel]
	if !ok || set.Value == "^" || version < withSymmetricKernels {
		return nil
	}
	if !version.Has(nccl.Models) { // it compares the whole value with each name
		if slices.Contains(channels.SymKernels, set.Value) {
			return nil
		}
		return []Finding{warned("unset it, or name one as NCCL spells it: "+strings.Join(channels.SymKernels, ", "),
			"%s: %s names no kernel. All symmetric kernels are off, and NCCL does not say so", what,
			d.env.Show(symKernel))}
	}
	left, err := channels.ParseSymKernel(set.Value, version)
	if err != nil {
		return []Finding{failed("correct or unset it", "%s: %v", what, err)}
	}
	named := func(c nccl.Coll) bool { return left[c].Set }
	if d.env.Get("NCCL_ALGO") != "" || !slices.ContainsFunc(nccl.AllColls(), named) {
		return nil
	}
	tell := warned
	if named(nccl.CollBroadcast) { // it has no symmetric kernel
		tell = failed
	}
	return []Finding{tell("unset it, or set NCCL_ALGO to algorithms that stay, as in NCCL_ALGO=ring", "%s: %s leaves "+
		"its collectives no algorithm. With buffers in no window, or without a kernel, NCCL fails them with error 5 "+
		"(ncclInvalidUsage)", what, d.env.Show(symKernel))}
}
