package tuner

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// logUnchecked logs which channel counts for AllGather are left to NCCL, because it may use them unchecked. Releases
// 2.29.2 to 2.30.7 schedule a group of broadcasts with different roots by asking the tuner about an AllGather
// (src/scheduler/allgatherv_sched.cc). If the answer has more channels than the communicator, all ranks end in an
// internal error or a crash. It logs once for a communicator, for the first version that has such counts.
func (c *Comm) logUnchecked(view *policy.EngineView) {
	rows, first, model := view.UncheckedAllGathers()
	if rows == 0 && !model || c.loggedUnchecked.Swap(true) {
		return
	}
	const why = "this NCCL may use it unchecked for a group of broadcasts, and crash"
	if rows > 0 {
		c.log.Infof("%s: the channel count of %s for allgather (first: line %d) is left to NCCL: %s", c.info,
			wording.Plural(rows, "row"), first.Line, why)
	}
	if model {
		c.log.Infof("%s: configurations of the model with a channel count for allgather are not used: %s", c.info, why)
	}
}
