package channels

import (
	"fmt"
	"math"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// Variables are the NCCL_* variables that NCCL's estimates and the number of channels depend on. The zero value is
// NCCL's default. All ranks of a communicator must have the same.
//
// Sources: NCCL 2.21.5 to 2.31.2, graph/tuning.cc (tuning/*.cc), graph/connect.cc, graph/search.cc,
// transport/nvls.cc, init.cc.
type Variables struct {
	NVLSDisable bool // NCCL_NVLS_ENABLE=0

	// NCCL_ALGO and NCCL_PROTO tell which algorithms and protocols are left for each collective. If the list names
	// LL128, NCCL uses it even where it would otherwise avoid it.
	Algos, Protos Choices

	MinChannels, MaxChannels int // NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS, or their older names *_NRINGS; 0: not set
	MinCTAs, MaxCTAs         int // NCCL_MIN_CTAS, NCCL_MAX_CTAS; 0: not set
	NVLSChannels             int // NCCL_NVLS_NCHANNELS; 0: not set

	Threads      int // NCCL_NTHREADS, for Simple and LL; 0: not set
	LL128Threads int // NCCL_LL128_NTHREADS; 0: not set
	// NCCL_THREAD_THRESHOLDS plus 1: bytes per thread of tree and then ring, by protocol; 0: not set
	ThreadThresholds [6]int64

	NetOverhead float32     // NCCL_NET_OVERHEAD in microseconds plus 1; 0: not set
	PAT         topo.Toggle // NCCL_PAT_ENABLE
	LL128NoC2C  bool        // NCCL_LL128_C2C=0
	// CrossNIC says whether a ring may leave a node through another NIC than it came in by (NCCL_CROSS_NIC); auto: if
	// nothing else works as well.
	CrossNIC             topo.Toggle
	CollNetNodeThreshold int // NCCL_COLLNET_NODE_THRESHOLD; 0: not set
}

// Choices are the algorithms or protocols that a list of names leaves to each collective.
type Choices [nccl.NumColls]struct {
	Set  bool // the variable says something about the collective
	Left uint // one bit for each; without Set all are left
}

func (c *Choices) has(coll nccl.Coll, which int) bool {
	return !c[coll].Set || c[coll].Left>>which&1 != 0
}

// named reports whether the list itself asks for it.
func (c *Choices) named(coll nccl.Coll, which int) bool { return c[coll].Set && c.has(coll, which) }

// Starved lists the collectives that NCCL_ALGO and NCCL_PROTO leave nothing: since nccl.Models an NCCL_ALGO that names
// collectives leaves the others no algorithm as soon as NCCL_PROTO says something about them. NCCL fails such a call
// with error 5, ncclInvalidUsage (run in 2.31.2).
func (v *Variables) Starved(version nccl.Version) (colls []nccl.Coll) {
	for coll := range v.Algos {
		if v.starves(nccl.Coll(coll), version) {
			colls = append(colls, nccl.Coll(coll))
		}
	}
	return colls
}

func (v *Variables) starves(coll nccl.Coll, version nccl.Version) bool {
	return version.Has(nccl.Models) && !v.Algos[coll].Set && v.Protos[coll].Set && v.Algos != Choices{}
}

// LeavePAT reports whether the variables leave PAT to a collective.
func (v *Variables) LeavePAT(coll nccl.Coll, version nccl.Version) bool {
	return v.PAT != topo.ToggleOff && !v.starves(coll, version) && v.Algos.has(coll, int(nccl.AlgoPAT)) &&
		v.Protos.has(coll, int(nccl.ProtoSimple))
}

// NotCounted are variables that NCCL's choice depends on but that this package ignores, with what they do.
var NotCounted = []struct{ Name, Does string }{
	{"NCCL_GRAPH_FILE", "gives the channels instead of NCCL's search"},
	{"NCCL_COLLNET_ENABLE", "makes CollNet available where the network reduces; say --collnet to topo tuning"},
	{"NCCL_CTA_POLICY", "makes NCCL prefer NVLS for registered buffers; a tuner turns that off"},
	{"NCCL_WORK_ARGS_BYTES", "limits the channels if it is small"},
	{"NCCL_UNPACK_DOUBLE_NCHANNELS", "doubles the channels of networks that unpack"},
	{"NCCL_MNNVL_ENABLE", "says whether hosts share an NVLink domain; a topology file does by itself"},
	{"NCCL_MNNVL_SCATTER_NETS_ENABLE", "orders the NICs of an NVLink domain of several hosts"},
	{"NCCL_MNNVL_RAIL_PER_HOST", "says which NICs of an NVLink domain of several hosts are one rail"},
	{"NCCL_TOPO_SCATTER_START_NET", "says which NIC each GPU begins with"},
	{"NCCL_SYM_KERNEL", "chooses symmetric kernels, which no tuner is asked about"},
	{"NCCL_SYM_NOWIN_ENABLE", "uses symmetric kernels for buffers that are not registered"},
	{"NCCL_ENQUEUE_REARCH_ENABLE", "lets symmetric and general kernels compete"},
}

// VariablesFromEnv fills the variables; getenv returns "" for those that are not set. A value that NCCL refuses to
// start with is an error.
func VariablesFromEnv(getenv func(string) string, version nccl.Version) (Variables, error) {
	number := func(name string, unset int64) int64 { return cnum.Param(getenv(name), unset) }
	count := func(names ...string) int {
		for _, name := range names {
			if n := number(name, -2); n != -2 {
				return clampInt(n, 1, maxChannels(version))
			}
		}
		return 0
	}
	// CTAs of 0 and below count as not set.
	ctas := func(name string) int {
		if n := number(name, 0); n > 0 {
			return clampInt(n, 1, maxChannels(version))
		}
		return 0
	}
	v := Variables{
		NVLSDisable: number("NCCL_NVLS_ENABLE", 2) == 0,
		MaxChannels: count("NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS"),
		MinChannels: count("NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS"),
		MinCTAs:     ctas("NCCL_MIN_CTAS"), MaxCTAs: ctas("NCCL_MAX_CTAS"), NVLSChannels: ctas("NCCL_NVLS_NCHANNELS"),
		Threads:              threads(number("NCCL_NTHREADS", 0), 2*nccl.WarpSize, maxSimpleThreads),
		LL128Threads:         threads(number("NCCL_LL128_NTHREADS", 0), nccl.MaxThreads/4, nccl.MaxThreads),
		LL128NoC2C:           number("NCCL_LL128_C2C", 1) == 0,
		CollNetNodeThreshold: int(min(max(number("NCCL_COLLNET_NODE_THRESHOLD", 0), 0), math.MaxInt32)),
	}
	if ns := number("NCCL_NET_OVERHEAD", -2); ns != -2 {
		v.NetOverhead = float32(float64(ns)*.001) + 1
	}
	switch number("NCCL_PAT_ENABLE", 2) {
	case 2:
	case 0:
		v.PAT = topo.ToggleOff
	default:
		v.PAT = topo.ToggleOn
	}
	switch number("NCCL_CROSS_NIC", 2) {
	case 0:
		v.CrossNIC = topo.ToggleOff
	case 1:
		v.CrossNIC = topo.ToggleOn
	}
	for i, field := range strings.Fields(getenv("NCCL_THREAD_THRESHOLDS")) {
		if i == len(v.ThreadThresholds) || !startsNumber(field) {
			break
		}
		v.ThreadThresholds[i] = max(-1, cnum.Int(field, 10)) + 1
	}
	var err error
	if v.Algos, err = parseChoices("NCCL_ALGO", getenv("NCCL_ALGO"), algoWords(version), version); err != nil {
		return v, err
	}
	v.Protos, err = parseChoices("NCCL_PROTO", getenv("NCCL_PROTO"), protoWords, version)
	return v, err
}

func startsNumber(text string) bool {
	text = strings.TrimLeft(text, "+-")
	return text != "" && text[0] >= '0' && text[0] <= '9'
}

// threads adjusts a number of threads per block as NCCL does; 0 means not set.
func threads(n int64, least, most int) int {
	switch {
	case n <= 0:
		return 0
	case n%nccl.WarpSize != 0:
		return most
	}
	return clampInt(n, least, most)
}

func clampInt(n int64, least, most int) int { return int(min(max(n, int64(least)), int64(most))) }

// protoWords are NCCL's words for protocols, by number.
var protoWords = []string{"LL", "LL128", "SIMPLE"}

// SymKernels are NCCL's words for symmetric kernels. Releases before 2.30 have fewer.
//
// Source: NCCL 2.30.7, src/sym_kernels.cc, and 2.31.2, src/include/sym_kernels.h.
var SymKernels = []string{
	"AllReduce_AGxLL_R", "AllReduce_AGxLLMC_R", "AllReduce_RSxTmaLD_AGxTmaST", "AllReduce_RSxLD_AGxST",
	"AllReduce_RSxLDMC_AGxSTMC", "AllGather_LL", "AllGather_LLMC", "AllGather_TmaST", "AllGather_ST",
	"AllGather_TmaSTMC", "AllGather_STMC", "AllGather_RailRing_LsaSTMC", "ReduceScatter_LL", "ReduceScatter_TmaLD",
	"ReduceScatter_LD", "ReduceScatter_LDMC", "ReduceScatter_RailA2A_LsaLD", "ReduceScatter_RailA2A_LsaLDMC",
}

// ParseSymKernel reads an NCCL_SYM_KERNEL as NCCL does since nccl.Models. A value that NCCL refuses to start with is an
// error.
func ParseSymKernel(value string, version nccl.Version) (Choices, error) {
	return parseChoices("NCCL_SYM_KERNEL", value, SymKernels, version)
}

// algoWords are NCCL's words for algorithms, by number.
func algoWords(version nccl.Version) []string {
	if !version.Has(nccl.PAT) {
		return nccl.Algos.Words[:nccl.AlgoPAT]
	}
	return nccl.Algos.Words
}

// parseChoices reads a list of names, with ^ for anything but these. Since nccl.PerCollective there may be lists for
// collectives after one for all, as in "^tree;broadcast:ring", and NCCL refuses words that it does not know.
func parseChoices(variable, text string, words []string, version nccl.Version) (c Choices, err error) {
	if text == "" {
		return c, nil
	}
	refuse := func(what string) error {
		const most = 256
		if len(text) > most {
			text = text[:most] + "..."
		}
		return fmt.Errorf("%s=%s: %s; NCCL %s does not start with that", variable, text, what, version)
	}
	if !version.Has(nccl.PerCollective) {
		left, _ := names(text, words)
		for coll := range c {
			c[coll].Set, c[coll].Left = true, left
		}
		return c, nil
	}
	for i, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' }) {
		coll, list, found := strings.Cut(strings.TrimLeft(part, ":"), ":")
		if !found || strings.Trim(list, ":") == "" {
			if i > 0 {
				return c, refuse(wording.Quote(part) + " names no collective, which only the first list may")
			}
			coll, list = "", coll
		}
		list, _, _ = strings.Cut(strings.TrimLeft(list, ":"), ":")
		left, unknown := names(list, words)
		if unknown != "" {
			return c, refuse(fmt.Sprintf("unknown word %s (allowed: %s)", wording.Quote(unknown),
				strings.Join(words, ", ")))
		}
		matched := false
		for k, name := range nccl.Colls.Words {
			if coll == "" || strings.EqualFold(coll, name) {
				c[k].Set, c[k].Left, matched = true, left, true
			}
		}
		if !matched {
			return c, refuse(fmt.Sprintf("unknown collective %s (allowed: %s)", wording.Quote(coll),
				strings.Join(nccl.Colls.Words, ", ")))
		}
	}
	return c, nil
}

// names returns one bit for each word that a list leaves, and the first word of the list that is unknown.
func names(list string, words []string) (left uint, unknown string) {
	list, inverted := strings.CutPrefix(list, "^")
	for _, w := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		known := false
		for i, word := range words {
			if strings.EqualFold(w, word) {
				left |= 1 << i
				known = true
			}
		}
		if !known && unknown == "" {
			unknown = w
		}
	}
	if inverted {
		left = ^left
	}
	return left, unknown
}
