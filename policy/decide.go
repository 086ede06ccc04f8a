package policy

import "math"

// Query is what NCCL asks about one collective. Every field but RegBuff is the
// same on all ranks of the communicator.
type Query struct {
	Coll    Coll
	Bytes   uint64 // as nccl-tests' size column: element size x the larger of send and receive count
	PipeOps int    // NCCL's numPipeOps
	RegBuff int    // 0 or 1; -1 where the ABI does not say (v2, v3)
	Costs   Costs
}

// Costs is NCCL's cost table: predicted microseconds per algorithm (rows) and
// protocol (columns). A cell below zero is unavailable.
type Costs struct {
	Micros   []float32 // rows one after the other
	NumProto int
	// AvailableOnly says that the cells tell which are available but not what
	// they cost, as with ABI v2.
	AvailableOnly bool
}

// Decision is the answer to a Query.
type Decision struct {
	Rule int // index into Policy.Rules; -1: no rule matched and NCCL decides

	// Algo and Proto are the cell NCCL will choose once the decision is applied;
	// -1 where that is not known, or where NCCL has nothing to choose from.
	Algo, Proto int
	// Tied says that NCCL's own choice is among cells of equal cost, of which
	// releases take different ones.
	Tied bool
	// Write asks to store Micros in that cell. Without it the table stays as it
	// is, because NCCL would choose the cell anyway.
	Write  bool
	Micros float32

	Channels   int    // 0: leave NCCL's count
	ChunkBytes uint64 // 0: leave NCCL's chunk size
}

// setNCCLsOwn notes what NCCL chooses from the table as it is.
func (d *Decision) setNCCLsOwn(c Costs) {
	cell := c.cheapest(everyCell)
	d.Tied = cell >= 0 && c.tied(cell)
	if d.Tied {
		cell = -1
	}
	d.Algo, d.Proto = c.split(cell)
}

// offersNothing reports, of NCCL's own decision, that there is no cell to choose.
func (d *Decision) offersNothing(c Costs) bool { return d.Algo < 0 && !d.Tied && !c.AvailableOnly }

// isAsked reports whether tuners are asked about the collective at all.
func (c Coll) isAsked() bool { return c >= 0 && c < NumColls }

// apply returns what the rule makes of a query that it matches, and whether it can
// decide it.
func (rule *Rule) apply(q *Query, c Comm) (Decision, bool) {
	d := Decision{Rule: -1, Algo: -1, Proto: -1}
	if rule.Cells == everyCell {
		d.setNCCLsOwn(q.Costs)
	} else {
		cell := q.Costs.cheapest(rule.Cells)
		if cell < 0 {
			return d, false
		}
		d.Algo, d.Proto = q.Costs.split(cell)
		var ok bool
		if d.Micros, d.Write, ok = q.Costs.makeCheapest(cell); !ok {
			return d, false
		}
	}
	if d.Algo < 0 { // NCCL's own choice, and there is no telling which that is
		return d, true
	}
	if c.checksChannels(q.Coll, Algo(d.Algo)) {
		d.Channels = int(rule.Channels)
	}
	if rule.ChunkBytes > 0 {
		d.ChunkBytes = max(rule.ChunkBytes, Proto(d.Proto).Grain())
	}
	return d, true
}

// checksChannels reports whether NCCL checks a tuner's channel count against what the
// communicator has, wherever it uses it. Where it does not, a larger count crashes the
// job, and what the communicator has is never certain: each may be created with limits
// of its own (ncclConfig_t.maxCTAs), which no tuner is told.
func (c Comm) checksChannels(coll Coll, a Algo) bool {
	return ChannelsCanBeSet(a, c.Nodes) && !(coll == CollAllGather && c.UncheckedAllGather)
}

// ChannelsCanBeSet reports whether a tuner may name a channel count for an algorithm.
// For CollNet, and for NVLS over several nodes, NCCL does not check it against what
// the communicator has (scheduleCollTasksToPlan in its src/enqueue.cc, 2.22 to 2.30);
// that of NVLSTree it does.
func ChannelsCanBeSet(a Algo, nodes int) bool {
	switch a {
	case AlgoTree, AlgoRing, AlgoNVLSTree, AlgoPAT:
		return true
	case AlgoNVLS:
		return nodes == 1
	}
	return false
}

// Grain is the smallest chunk of a protocol in bytes. NCCL rounds a chunk down
// to a multiple of it; less than one grain becomes 0 and breaks the collective.
func (p Proto) Grain() uint64 {
	switch p {
	case ProtoLL:
		return 16
	case ProtoLL128:
		return 1920
	}
	return 512
}

// NCCLsOwn returns the cell that NCCL chooses from the table by itself. known is false
// where that cannot be told: nothing is available, costs are not known, or cells of
// equal cost, of which releases take different ones.
func (c Costs) NCCLsOwn() (algo Algo, proto Proto, known bool) {
	var d Decision
	d.setNCCLsOwn(c)
	return Algo(d.Algo), Proto(d.Proto), d.Algo >= 0
}

// available: NCCL never chooses a cell below zero, nor one that is not below
// FLT_MAX, the value its search starts from.
func available(micros float32) bool { return micros >= 0 && micros < math.MaxFloat32 }

func (c Costs) split(cell int) (algo, proto int) {
	if cell < 0 {
		return -1, -1
	}
	return cell / c.NumProto, cell % c.NumProto
}

// cheapest returns the cheapest available cell of the set, the first of equals,
// or -1. Where costs are unknown there is no telling which of several is the
// cheapest, and only a set of one cell has an answer.
func (c Costs) cheapest(set CellSet) int {
	if c.AvailableOnly && !set.single() {
		return -1
	}
	best := -1
	for i, micros := range c.Micros {
		if !available(micros) || !set.contains(i/c.NumProto, i%c.NumProto) {
			continue
		}
		if best < 0 || micros < c.Micros[best] {
			best = i
		}
	}
	return best
}

func (c Costs) tied(cell int) bool {
	for i, micros := range c.Micros {
		if i != cell && micros == c.Micros[cell] {
			return true
		}
	}
	return false
}

// makeCheapest returns the cost at which a cell beats all others: its own if it
// does so already, else the next number below the cheapest other one, so that
// there is no tie (releases of NCCL break ties differently) and the estimate
// stays believable. No positive cost beats a cell that costs 0: then ok is false.
func (c Costs) makeCheapest(cell int) (micros float32, write, ok bool) {
	other := float32(math.MaxFloat32)
	for i, m := range c.Micros {
		if i != cell && available(m) {
			other = min(other, m)
		}
	}
	switch {
	case c.AvailableOnly:
		return 0, true, true
	case c.Micros[cell] < other:
		return c.Micros[cell], false, true
	}
	micros = math.Nextafter32(other, 0)
	return micros, true, micros > 0
}
