package nccl

// Offers reports whether NCCL has an algorithm with a protocol for a collective on some
// machine, from the conditions at the head of ncclTopoTuneModel (graph/tuning.cc, 2.30).
func Offers(coll Coll, a Algo, p Proto) bool {
	allReduce := coll == CollAllReduce
	gathers := coll == CollAllGather || coll == CollReduceScatter
	switch a {
	case AlgoRing:
		return true
	case AlgoTree:
		return allReduce
	case AlgoCollNetDirect, AlgoNVLS:
		return p == ProtoSimple && (allReduce || gathers)
	case AlgoCollNetChain, AlgoNVLSTree:
		return p == ProtoSimple && allReduce
	case AlgoPAT:
		return p == ProtoSimple && gathers
	}
	return false
}
