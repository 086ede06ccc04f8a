package lint

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// sumOrders finds rows that ask for one configuration, but for one that does not add all elements in one order.
// vary are the rows that do not even ask for one. The order is that of NCCL's kernels (src/device/all_reduce.h,
// src/enqueue.cc, 2.30); that of switches is from its maintainers (NVIDIA/nccl issue 1497).
func (c *check) sumOrders(vary policy.Problems) {
	found := map[int]bool{} // lines
	for _, v := range vary {
		found[v.Line] = true
	}
	for _, r := range c.rows {
		if !r.Adds() || found[r.Line] {
			continue
		}
		why := ""
		switch algo := r.cells.all()[0].Algo; {
		case algo != nccl.AlgoTree && algo != nccl.AlgoRing && algo != nccl.AlgoPAT:
			why = "a switch adds, in an order that NCCL does not control"
		case r.Channels > 1:
			why = "channels add in different orders, and the size decides which elements a channel has"
		case algo == nccl.AlgoRing && slices.Contains(r.Colls(), nccl.CollAllReduce):
			why = "an element's place in the ring's chunks decides the order, and the size decides the place"
		default:
			continue
		}
		c.report(sumOrder, r.Line, "algorithm", "%s: %s, so that sums may depend on the size of the call",
			r.Asks(), why)
	}
}
