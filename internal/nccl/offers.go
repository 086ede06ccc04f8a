package nccl

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
