package policy

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Coll is a collective, numbered as NCCL's tuner ABI numbers it.
type Coll int8

const (
	CollBroadcast     Coll = topo.CollBroadcast
	CollReduce        Coll = topo.CollReduce
	CollAllGather     Coll = topo.CollAllGather
	CollReduceScatter Coll = topo.CollReduceScatter
	CollAllReduce     Coll = topo.CollAllReduce

	// NumColls is how many collectives NCCL asks a tuner about.
	NumColls = topo.NumColls
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
	AlgoTree          Algo = topo.AlgoTree
	AlgoRing          Algo = topo.AlgoRing
	AlgoCollNetDirect Algo = topo.AlgoCollNetDirect
	AlgoCollNetChain  Algo = topo.AlgoCollNetChain
	AlgoNVLS          Algo = topo.AlgoNVLS
	AlgoNVLSTree      Algo = topo.AlgoNVLSTree
	AlgoPAT           Algo = topo.AlgoPAT // since NCCL 2.23
)

// Proto is a protocol, numbered as the columns of NCCL's cost table.
type Proto int8

const (
	ProtoLL     Proto = topo.ProtoLL
	ProtoLL128  Proto = topo.ProtoLL128
	ProtoSimple Proto = topo.ProtoSimple
)

var (
	collNames  = newNames[Coll](topo.CollNames[:], "all_gather", "reduce_scatter", "all_reduce")
	algoNames  = newNames[Algo](topo.AlgoNames[:])
	protoNames = newNames[Proto](topo.ProtoNames[:])

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

// didYouMean returns `did you mean "x"; ` for the known name nearest to got, or
// nothing when none is near.
func didYouMean(got string, known []string) string {
	got = strings.ToLower(strings.TrimPrefix(got, "!"))
	best, distance := "", 2+len(got)/4 // a transposition is two edits
	for _, k := range known {
		if d := levenshtein.Distance(got, k, nil); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q; ", best)
}
