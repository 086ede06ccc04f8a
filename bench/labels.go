package bench

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Origin is where the label of a sample (its algorithm, protocol and channels)
// comes from. A greater one is trusted more.
type Origin int

const (
	originNone     Origin = iota // nothing says so: the library's default
	originFileName               // words in the file's name
	originExport                 // NCCL_ALGO and the like in the log's preamble
	originJSONEnv                // the env array of the JSON
	originMeasured               // NCCL's log, or RCCL's measured columns
	originFields                 // the fields of a CSV file
	NumOrigins
)

var originNames = [NumOrigins]string{"default", "file name", "exports", "JSON env", "measured", "fields"}

func (o Origin) String() string { return originNames[o] }

// noLabel is a configuration that is not known at all.
var noLabel = nccl.Config{Cell: nccl.NoCell}

// claim is what is known of a configuration, and who says so.
type claim struct {
	nccl.Config
	from   Origin
	forces bool // the library did not choose algorithm and protocol freely
	bounds bool // nor the number of channels
}

// label is what all claims together say.
type label struct {
	nccl.Config
	from            Origin // the most trusted claim's that says anything
	forced, bounded bool   // by any of the claims
	clash           string // the part that claims disagree about; empty: none
}

// merge takes every part from the most trusted claim that has it. The claims
// come in any order.
func merge(claims []claim) label {
	slices.SortStableFunc(claims, func(a, b claim) int { return int(b.from - a.from) })
	l := label{Config: noLabel}
	var said [3]Origin
	disagree := func(part int, what, used, other string, by Origin) {
		if l.clash == "" {
			l.clash = fmt.Sprintf("%s is %s by %s, but %s by %s: the first is used", what, used, said[part], other, by)
		}
	}
	for _, c := range claims {
		l.forced, l.bounded = l.forced || c.forces, l.bounded || c.bounds
		if c.Config != noLabel {
			l.from = max(l.from, c.from)
		}
		switch {
		case c.Algo == Unknown:
		case l.Algo == Unknown:
			l.Algo, said[0] = c.Algo, c.from
		case l.Algo != c.Algo:
			disagree(0, "the algorithm", l.Algo.String(), c.Algo.String(), c.from)
		}
		switch {
		case c.Proto == Unknown:
		case l.Proto == Unknown:
			l.Proto, said[1] = c.Proto, c.from
		case l.Proto != c.Proto:
			disagree(1, "the protocol", l.Proto.String(), c.Proto.String(), c.from)
		}
		switch {
		case c.Channels == 0:
		case l.Channels == 0:
			l.Channels, said[2] = c.Channels, c.from
		// Variables ask for channels, and fewer may run.
		case l.Channels != c.Channels && said[2] != originMeasured:
			disagree(2, "the number of channels", strconv.Itoa(l.Channels), strconv.Itoa(c.Channels), c.from)
		}
	}
	return l
}

// fold removes what differs between the spellings of one name.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-', ' ':
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// parseAlgo reads an algorithm's name, or its number as older logs print it.
func parseAlgo(s string) (nccl.Algo, bool) {
	a, ok := parseLabel(nccl.Algos, s)
	if !ok && fold(s) == "collnet" { // its only kind before NCCL 2.14
		return nccl.AlgoCollNetDirect, true
	}
	return a, ok
}

// CellNamed reads the names of an algorithm and a protocol as logs print them. A name that it does not know,
// such as that of a symmetric kernel, becomes Unknown.
func CellNamed(algo, proto string) (c nccl.Cell) {
	c.Algo, _ = parseAlgo(algo)
	c.Proto, _ = parseProto(proto)
	return c
}

func parseProto(s string) (nccl.Proto, bool) { return parseLabel(nccl.Protos, s) }

func parseLabel[T nccl.Algo | nccl.Proto](names nccl.Names[T], s string) (T, bool) {
	if v, ok := names.Named(s); ok {
		return v, true
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && n < len(names.Known) {
		return T(n), true
	}
	if v, ok := names.Named(fold(s)); ok {
		return v, true
	}
	return Unknown, false
}

// verifyWord in a log's name, and before the source of its samples, marks runs that verify what was chosen.
const verifyWord = "verify"

// What numbers in a file's name mean: 8ch, 2n or nodes2, ranks16.
var (
	nameChannels = regexp.MustCompile(
		`(?i)(?:^|[^a-z])(?:n?ch(?:annels?)?[_=-]?([0-9]+)|([0-9]+)n?ch(?:annels?)?)(?:[^a-z0-9]|$)`)
	nameNodes = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(?:nodes?[_=-]?([0-9]+)|([0-9]+)n(?:odes?)?)(?:[^a-z0-9]|$)`)
	nameRanks = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(?:n?ranks?[_=-]?([0-9]+)|([0-9]+)r(?:anks?)?)(?:[^a-z0-9]|$)`)
)

// named is what a file's name says.
type named struct {
	nccl.Config
	nccl.Comm
	coll      string // folded; empty: nothing
	isDefault bool
	verify    bool // a run that verifies what was chosen
}

// labelsInName reads words such as ring, ll128 and 8ch.
func labelsInName(path string) named {
	n := named{Config: noLabel}
	base := filepath.Base(path)
	base = strings.TrimSuffix(base, filepath.Ext(base))
	words := strings.FieldsFunc(strings.ToLower(base), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
	algos, protos, colls := map[nccl.Algo]bool{}, map[nccl.Proto]bool{}, map[string]bool{}
	for i := 0; i < len(words); i++ {
		pair := words[i]
		if i+1 < len(words) {
			pair += words[i+1]
		}
		// Two words first: nvls_tree is not nvls, all_reduce is not reduce.
		for _, w := range []string{pair, words[i]} {
			a, isAlgo := nccl.Algos.Named(w)
			p, isProto := nccl.Protos.Named(w)
			_, isColl := collByName[w]
			switch {
			case isAlgo:
				algos[a] = true
			case isProto:
				protos[p] = true
			case isColl:
				colls[w] = true
			case w == "default":
				n.isDefault = true
			case w == verifyWord:
				n.verify = true
			default:
				continue
			}
			if w == pair && w != words[i] {
				i++
			}
			break
		}
	}
	n.Algo, n.Proto, n.coll = only(algos, Unknown), only(protos, Unknown), only(colls, "")
	number := func(re *regexp.Regexp) int {
		for _, s := range re.FindStringSubmatch(base) {
			if v, err := strconv.Atoi(s); err == nil {
				return v
			}
		}
		return 0
	}
	n.Channels, n.Nodes, n.Ranks = number(nameChannels), number(nameNodes), number(nameRanks)
	return n
}

// only returns the one value that a name has. A name with two, such as fat_tree_ring, says nothing.
func only[T comparable](said map[T]bool, nothing T) T {
	if len(said) == 1 {
		for v := range said {
			return v
		}
	}
	return nothing
}

func (n named) claim() claim {
	return claim{n.Config, originFileName, n.Config != noLabel && !n.isDefault, n.Channels > 0}
}
