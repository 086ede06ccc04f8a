package tuner

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// UncheckedAllGather reports whether this NCCL may use a tuner's channel count for an AllGather without a
// check against the communicator's channels. Releases 2.29.2 to 2.30.7 do so
// (src/scheduler/allgatherv_sched.cc). They schedule a group of broadcasts with different roots by asking the
// tuner about an AllGather. If the answer has more channels than the communicator, all ranks end in an
// internal error or a crash.
//
// The ABI version does not tell the release: v5 is 2.28.3 to 2.30.2, v6 is 2.30.3 to 2.32.5. One of NCCL's
// constants does: perChMaxRingLL128Bws of Blackwell on one node. It is 73.4 in 2.28, 34.5 or 40 in the
// affected releases, and not set yet from 2.31 on. Any other value belongs to an unknown NCCL, which counts
// as affected.
func UncheckedAllGather(abi int, ringLL128 float64) bool {
	return abi >= nccl.ABIComms && ringLL128 != 2*36.7 && ringLL128 != 0
}

// logUnchecked logs which channel counts are left to NCCL for this reason. It does so once for a
// communicator, for the first version that has such counts.
func (c *Comm) logUnchecked(view *policy.EngineView) {
	rows, first, model := view.UncheckedAllGathers()
	if rows == 0 && !model || c.loggedUnchecked.Swap(true) {
		return
	}
	const why = "this NCCL may use it unchecked for a group of broadcasts, and crash"
	if rows > 0 {
		c.log.Infof("%s: the channel count of %s for allgather (first: line %d) is left to NCCL: %s", c.info,
			plural.Of(rows, "row"), first.Line, why)
	}
	if model {
		c.log.Infof("%s: configurations of the model with a channel count for allgather are not used: %s", c.info, why)
	}
}
