package policy

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

// Query is what NCCL asks about one collective. Every field but RegBuff is the same on all ranks of
// the communicator.
type Query struct {
	nccl.Call
	PipeOps int // NCCL's numPipeOps
	RegBuff int // 0 or 1; -1 where the ABI does not say (v2, v3)
	Costs   nccl.Costs
}

// Decision is the answer to a Query.
type Decision struct {
	Rule int // index into Policy.Rules; -1: no rule matched and NCCL decides

	// Config is what NCCL will choose once the decision is applied, with 0 channels where the number is left
	// to it. Its cell is NoCell if that is not known, or if NCCL has nothing to choose from.
	nccl.Config
	// Tied says that several cells have the least cost. Releases differ in which of them they choose.
	Tied bool
	// Write asks to store Micros in that cell. Without it the table stays as it is, because NCCL
	// would choose the cell anyway.
	Write  bool
	Micros float32

	ChunkBytes uint64 // 0: leave NCCL's chunk size
}

// setNCCLChoice notes what NCCL chooses from the table as it is.
func (d *Decision) setNCCLChoice(c nccl.Costs) { d.Cell, d.Tied = c.NCCLChoice() }

// offersNothing reports that NCCL has no cell to choose. d must be NCCL's own decision.
func (d *Decision) offersNothing(c nccl.Costs) bool { return !d.Known() && !d.Tied && !c.AvailableOnly }

// apply returns the decision of a query for which a is asked, and whether a can decide it.
func (a Ask) apply(q *Query, c Comm) (Decision, bool) {
	d := Decision{Rule: -1, Config: nccl.Config{Cell: nccl.NoCell}}
	if a.Cells == everyCell {
		d.setNCCLChoice(q.Costs)
	} else {
		var ok bool
		if d.Cell, ok = a.Cells.cheapest(q.Costs); !ok {
			return d, false
		}
		if d.Micros, d.Write, ok = q.Costs.MakeCheapest(d.Cell); !ok {
			return d, false
		}
	}
	if !d.Known() { // NCCL's choice, which is not known
		return d, true
	}
	if nccl.ChannelsAreChecked(q.Coll, d.Algo, c.Nodes, c.NCCL.MayUseUncheckedAllGather()) {
		d.Channels = int(a.Channels)
	}
	if a.ChunkBytes > 0 {
		d.ChunkBytes = max(a.ChunkBytes, d.Proto.Grain())
	}
	return d, true
}
