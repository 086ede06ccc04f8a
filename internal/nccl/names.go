package nccl

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Coll is a collective, numbered as in NCCL's tuner ABI (nccl_common.h, NCCL 2.30.7).
type Coll int8

const (
	CollBroadcast Coll = iota
	CollReduce
	CollAllGather
	CollReduceScatter
	CollAllReduce

	// NumColls is how many collectives NCCL asks a tuner about.
	NumColls = int(CollAllReduce) + 1
)

// Algo is an algorithm, numbered as the rows of NCCL's cost table (nccl_tuner.h, NCCL 2.30.7).
type Algo int8

const (
	AlgoTree Algo = iota
	AlgoRing
	AlgoCollNetDirect
	AlgoCollNetChain
	AlgoNVLS
	AlgoNVLSTree
	AlgoPAT // since NCCL 2.23

	NumAlgos = int(AlgoPAT) + 1
)

// Proto is a protocol, numbered as the columns of NCCL's cost table (nccl_tuner.h, NCCL 2.30.7).
type Proto int8

const (
	ProtoLL Proto = iota
	ProtoLL128
	ProtoSimple

	NumProtos = int(ProtoSimple) + 1
)

// The names in the values' order: NCCL's own, and the words of a name apart, as
// nccl-tests and NCCL's CSV write them.
var (
	Colls = newNames[Coll]("collective", "", []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"},
		"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce")
	Algos = newNames[Algo]("algorithm", "_", []string{"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS",
		"NVLSTree", "PAT"},
		"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
	Protos = newNames[Proto]("protocol", "_", []string{"LL", "LL128", "Simple"},
		"ll", "ll128", "simple")

	neverAsked = newNames[Coll]("", "", nil, "all_to_all", "all_to_all_v", "all_to_all_pivot", "gather", "scatter",
		"send_recv", "send", "recv")
)

// IsAsked reports whether tuners are asked about the collective at all.
func (c Coll) IsAsked() bool { return c >= 0 && int(c) < NumColls }

// AllColls lists the collectives that tuners are asked about, in NCCL's order.
func AllColls() (all []Coll) {
	for c := range Coll(NumColls) {
		all = append(all, c)
	}
	return all
}

func (c Coll) String() string  { return Colls.name(c) }
func (a Algo) String() string  { return Algos.name(a) }
func (p Proto) String() string { return Protos.name(p) }

// MarshalText implements encoding.TextMarshaler: in JSON they have their names, too.
func (c Coll) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (a Algo) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (p Proto) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Coll) UnmarshalText(text []byte) (err error) {
	*c, err = Colls.Parse(string(text))
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Algo) UnmarshalText(text []byte) (err error) {
	*a, err = Algos.Parse(string(text))
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Proto) UnmarshalText(text []byte) (err error) {
	*p, err = Protos.Parse(string(text))
	return err
}

// NeverAsked reports whether a name is that of an operation that no tuner is asked
// about, as alltoall.
func NeverAsked(s string) bool {
	_, ok := neverAsked.Named(s)
	return ok
}

// Names are the spellings of an enumeration whose values count from 0, in their order.
type Names[T ~int8] struct {
	Known []string // as the files of this project spell them
	Words []string // as NCCL's own code does
	Apart []string // with "_" between words, as nccl-tests does

	what       string
	bySpelling map[string]T // in lower case
}

// newNames takes what stands between the words of a known name.
func newNames[T ~int8](what, join string, words []string, apart ...string) Names[T] {
	n := Names[T]{Words: words, Apart: apart, what: what, bySpelling: map[string]T{}}
	for i, name := range apart {
		n.Known = append(n.Known, strings.ReplaceAll(name, "_", join))
		for _, s := range Spellings(name) {
			n.bySpelling[s] = T(i)
		}
	}
	return n
}

// Spellings returns the ways in use to write a name of words joined by "_", in
// lower case: NCCL_ALGO, NCCL's log and NCCL's CSV each have their own.
func Spellings(name string) [3]string {
	return [...]string{name, strings.ReplaceAll(name, "_", ""), strings.ReplaceAll(name, "_", "-")}
}

func (n Names[T]) name(v T) string {
	if v < 0 || int(v) >= len(n.Known) {
		return fmt.Sprintf("#%d", int8(v))
	}
	return n.Known[v]
}

// Named is Parse without an error, for words that often are not a name.
func (n Names[T]) Named(s string) (T, bool) {
	v, ok := n.bySpelling[s]
	if !ok {
		v, ok = n.bySpelling[strings.ToLower(s)]
	}
	return v, ok
}

// Parse reads a name in any of the spellings in use: allreduce, AllReduce, all_reduce, ...
func (n Names[T]) Parse(s string) (T, error) {
	v, ok := n.Named(s)
	if !ok {
		return 0, n.Unknown(s, "")
	}
	return v, nil
}

// Unknown is the error for an unknown name. also says what else is allowed there, as ", -1 for any".
func (n Names[T]) Unknown(got, also string) error {
	return fmt.Errorf("unknown %s %s (%sallowed: %s%s)", n.what, wording.Quote(got),
		wording.DidYouMean(strings.TrimPrefix(got, "!"), n.Known), strings.Join(n.Known, ", "), also)
}
