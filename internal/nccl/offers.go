package nccl

// Which cells NCCL has at all, on whatever machine. What it has on one machine the cost table of a call tells.

// Offers reports whether NCCL has a cell for a collective on some machine. The source is
// the conditions at the head of ncclTopoTuneModel (graph/tuning.cc, 2.30).
func Offers(coll Coll, cell Cell) bool {
	allReduce := coll == CollAllReduce
	gathers := coll == CollAllGather || coll == CollReduceScatter
	switch cell.Algo {
	case AlgoRing:
		return true
	case AlgoTree:
		return allReduce
	case AlgoCollNetDirect, AlgoNVLS:
		return cell.Proto == ProtoSimple && (allReduce || gathers)
	case AlgoCollNetChain, AlgoNVLSTree:
		return cell.Proto == ProtoSimple && allReduce
	case AlgoPAT:
		return cell.Proto == ProtoSimple && gathers
	}
	return false
}

// OffersPAT reports whether the release offers PAT on a communicator of several nodes, where the machine allows it.
// Where nodes have several ranks it never chooses it by itself (tuning/tuning_pat.cc, 2.31.2), so a tuner is the only
// way to it. It is false for a release that is not known (0).
func (v Version) OffersPAT(c Comm) bool {
	since := PAT
	if c.Ranks > c.Nodes {
		since = PATOnManyRanks
	}
	return v != 0 && c.Nodes > 1 && v.Has(since)
}
