package doctor

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/host"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// releaseFaults says what an NCCL does wrong with what the policy or the model asks for;
// docs/NCCL.md has the facts.
func (d *doctor) releaseFaults(lib *host.Library) (found []finding) {
	f := d.files()
	asks := func(wanted func(*policy.Rule) bool) bool {
		return f.compiled != nil && slices.ContainsFunc(f.compiled.Rules, func(r policy.Rule) bool { return wanted(&r) })
	}
	version := nccl.Version(lib.NCCL)
	const symmetricPreview = 23100 // 2.31.0 was published as a preview only, 2.31.0a7
	if version == symmetricPreview && (f.fitted != nil || asks(asksForLL)) {
		found = append(found, warned("use NCCL 2.31.2 or later, or no ll for allreduce, allgather and reducescatter",
			"NCCL %s, a preview, takes a symmetric kernel where a tuner chooses ll for allreduce, allgather or reducescatter: a process with several GPUs hangs, a group of allgathers fails", version))
	}
	if lib.NCCL > 0 && version.UncheckedAllGather() && asks(func(r *policy.Rule) bool { return r.Channels > 0 && slices.Contains(r.Colls(), nccl.CollAllGather) }) {
		found = append(found, noted("", "NCCL %s may use an allgather's channel count unchecked and crash: rows set none there, and keep to algorithm and protocol", version))
	}
	return found
}

// asksForLL reports whether a row may choose LL for a collective that has symmetric kernels.
func asksForLL(r *policy.Rule) bool {
	symmetric := []nccl.Coll{nccl.CollAllReduce, nccl.CollAllGather, nccl.CollReduceScatter}
	return !r.LeavesToNCCL() && (r.Cells.Contains(nccl.AlgoRing, nccl.ProtoLL) || r.Cells.Contains(nccl.AlgoTree, nccl.ProtoLL)) &&
		slices.ContainsFunc(r.Colls(), func(c nccl.Coll) bool { return slices.Contains(symmetric, c) })
}
