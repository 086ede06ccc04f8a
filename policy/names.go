package policy

import (
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Coll is a collective, numbered as NCCL's tuner ABI numbers it.
type Coll int8

const (
	CollBroadcast     Coll = tuning.CollBroadcast
	CollReduce        Coll = tuning.CollReduce
	CollAllGather     Coll = tuning.CollAllGather
	CollReduceScatter Coll = tuning.CollReduceScatter
	CollAllReduce     Coll = tuning.CollAllReduce

	// NumColls is how many collectives NCCL asks a tuner about.
	NumColls = tuning.NumColls
)

const (
	// anyColl in a rule means each of the NumColls collectives.
	anyColl Coll = -1
	// collNeverAsked stands for operations that RCCL's and newer NCCL's files
	// name but that no tuner is ever asked about. Their rows are checked like
	// all others and then have no effect.
	collNeverAsked Coll = -2
)

// Algo is an algorithm, numbered as the rows of NCCL's cost table.
type Algo int8

const (
	AlgoTree          Algo = tuning.AlgoTree
	AlgoRing          Algo = tuning.AlgoRing
	AlgoCollNetDirect Algo = tuning.AlgoCollNetDirect
	AlgoCollNetChain  Algo = tuning.AlgoCollNetChain
	AlgoNVLS          Algo = tuning.AlgoNVLS
	AlgoNVLSTree      Algo = tuning.AlgoNVLSTree
	AlgoPAT           Algo = tuning.AlgoPAT // since NCCL 2.23
)

// Proto is a protocol, numbered as the columns of NCCL's cost table.
type Proto int8

const (
	ProtoLL     Proto = tuning.ProtoLL
	ProtoLL128  Proto = tuning.ProtoLL128
	ProtoSimple Proto = tuning.ProtoSimple
)

var (
	collNames  = newNames[Coll](tuning.CollNames[:], "all_gather", "reduce_scatter", "all_reduce")
	algoNames  = newNames[Algo](tuning.AlgoNames[:])
	protoNames = newNames[Proto](tuning.ProtoNames[:])

	neverAsked = newNames[Coll]([]string{"alltoall", "alltoallv", "alltoallpivot", "gather", "scatter", "sendrecv", "send", "recv"},
		"all_to_all", "all_to_all_v", "all_to_all_pivot", "send_recv")
)

func (c Coll) String() string  { return collNames.name(c) }
func (a Algo) String() string  { return algoNames.name(a) }
func (p Proto) String() string { return protoNames.name(p) }

// ParseColl reads a collective's name in any of the spellings in use:
// allreduce, AllReduce, all_reduce, ...
func ParseColl(s string) (Coll, error) {
	if c, ok := collNames.parse(s); ok {
		return c, nil
	}
	return 0, fmt.Errorf("%w)", collNames.unknown("collective", s))
}

// NeverAsked reports whether a name is that of an operation that no tuner is asked
// about, as alltoall.
func NeverAsked(s string) bool {
	_, ok := neverAsked.parse(s)
	return ok
}

// names are the spellings of an enumeration whose values count from 0.
type names[T ~int8] struct {
	canonical  []string
	bySpelling map[string]T // in lower case
}

// newNames takes the names in the values' order, and other ways to set their
// words apart.
func newNames[T ~int8](canonical []string, separated ...string) names[T] {
	n := names[T]{canonical, map[string]T{}}
	for i, name := range canonical {
		for _, s := range spellings(name) {
			n.bySpelling[s] = T(i)
		}
	}
	for _, name := range separated {
		v := n.bySpelling[strings.ReplaceAll(name, "_", "")]
		for _, s := range spellings(name) {
			n.bySpelling[s] = v
		}
	}
	return n
}

// spellings returns the ways in use to write a name of words joined by "_", in
// lower case: NCCL_ALGO, NCCL's log and NCCL's CSV each have their own.
func spellings(name string) []string {
	return []string{name, strings.ReplaceAll(name, "_", ""), strings.ReplaceAll(name, "_", "-")}
}

func (n names[T]) name(v T) string {
	if v < 0 || int(v) >= len(n.canonical) {
		return fmt.Sprintf("#%d", int8(v))
	}
	return n.canonical[v]
}

// spellings yields every spelling, in lower case.
func (n names[T]) spellings() iter.Seq[string] { return maps.Keys(n.bySpelling) }

func (n names[T]) parse(s string) (T, bool) {
	v, ok := n.bySpelling[s]
	if !ok {
		v, ok = n.bySpelling[strings.ToLower(s)]
	}
	return v, ok
}

// unknown is the error for a spelling that parse refused. Its last parenthesis
// is left open for what else the place allows.
func (n names[T]) unknown(what, got string) error {
	return fmt.Errorf("unknown %s %s (%sallowed: %s", what, quote(got),
		didYouMean(got, n.canonical), strings.Join(n.canonical, ", "))
}

// didYouMean is suggest.DidYouMean for a name that may stand behind a "!".
func didYouMean(got string, known []string) string {
	return suggest.DidYouMean(strings.TrimPrefix(got, "!"), known)
}
