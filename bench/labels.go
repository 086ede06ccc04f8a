package bench

import (
	"cmp"
	"fmt"
	"maps"
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
	originNone      Origin = iota // nothing says so
	originVariables               // NCCL_ALGO and the like, of the run's own command or in its log
	originMeasured                // NCCL's log of its choices, or RCCL's measured columns
	originFields                  // the fields of a CSV file
	originUser                    // Options
	NumOrigins
)

var originNames = [NumOrigins]string{"default", "variables", "measured", "fields", "options"}

func (o Origin) String() string { return originNames[o] }

// noLabel is a configuration that is not known at all.
var noLabel = nccl.Config{Cell: nccl.NoCell}

// claim is what is known of a configuration, and who says so.
type claim struct {
	nccl.Config
	from           Origin
	forcesCell     bool // the library did not choose algorithm and protocol freely
	forcesChannels bool // nor the number of channels
}

// merge takes every part from the most trusted claim that has it. The claims come in any order. clash is the part that
// they disagree about; empty: none.
func merge(claims []claim) (l claim, clash string) {
	slices.SortStableFunc(claims, func(a, b claim) int { return int(b.from - a.from) })
	l.Config = noLabel
	var algoBy, protoBy, channelsBy Origin
	disagree := func(what string, used any, usedBy Origin, other any, by Origin) {
		if clash == "" {
			clash = fmt.Sprintf("%s is %v by %s, but %v by %s: the first is used", what, used, usedBy, other, by)
		}
	}
	for _, c := range claims {
		l.forcesCell, l.forcesChannels = l.forcesCell || c.forcesCell, l.forcesChannels || c.forcesChannels
		if c.Config != noLabel {
			l.from = max(l.from, c.from)
		}
		if !take(&l.Algo, &algoBy, c.Algo, Unknown, c.from) {
			disagree("the algorithm", l.Algo, algoBy, c.Algo, c.from)
		}
		if !take(&l.Proto, &protoBy, c.Proto, Unknown, c.from) {
			disagree("the protocol", l.Proto, protoBy, c.Proto, c.from)
		}
		// Variables ask for channels, and fewer may run.
		if !take(&l.Channels, &channelsBy, c.Channels, 0, c.from) && channelsBy != originMeasured {
			disagree("the number of channels", l.Channels, channelsBy, c.Channels, c.from)
		}
	}
	return l, clash
}

// take sets a part that nobody has told yet. It reports false where the part is told otherwise.
func take[T comparable](part *T, by *Origin, told, unknown T, from Origin) bool {
	if *part == unknown {
		*part, *by = told, from
	}
	return told == unknown || told == *part
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

var (
	// channelsWord is a number of channels in prose, as 8ch.
	channelsWord = regexp.MustCompile(`^(?:n?ch(?:annels?)?[0-9]+|[0-9]+n?ch(?:annels?)?)$`)
	notWord      = regexp.MustCompile(`[^a-z0-9]+`)
)

// hintsIn returns the words of a text that name an algorithm, a protocol, a number of channels or what else may choose.
// Such words tell nothing for sure: no-nvls.log ran without NVLS.
func hintsIn(text string) (hints []string) {
	words := notWord.Split(strings.ToLower(text), -1)
	for i := 0; i < len(words) && len(hints) < 4; i++ {
		pair := ""
		if i+1 < len(words) {
			pair = words[i] + "_" + words[i+1] // nvls_tree
		}
		switch {
		case isHint(pair):
			hints = append(hints, pair)
			i++
		case isHint(words[i]):
			hints = append(hints, words[i])
		}
	}
	return hints
}

func isHint(word string) bool {
	_, isAlgo := nccl.Algos.Named(word)
	_, isProto := nccl.Protos.Named(word)
	switch word {
	case "":
		return false
	case "collnet", "sharp", "mscclpp", "msccl":
		return true
	}
	return isAlgo || isProto || channelsWord.MatchString(word)
}

// channelCounts are the channel counts that a file has of one algorithm and protocol.
type channelCounts struct {
	told, asked bool           // some are said to be NCCL's own, or are known to be asked for
	bySize      map[uint64]int // the only count at each size; nil: there are several
}

// rise tells NCCL's choice by its rule: one count at each size, which changes with the size and does not fall as sizes
// grow (NCCL 2.30.7: topoGetAlgoInfo, src/enqueue.cc).
func (c *channelCounts) rise() bool {
	var inOrder []int
	for _, b := range slices.Sorted(maps.Keys(c.bySize)) {
		inOrder = append(inOrder, c.bySize[b])
	}
	return slices.IsSorted(inOrder) && len(inOrder) > 0 && inOrder[0] > 0 && inOrder[0] < inOrder[len(inOrder)-1]
}

// tellOwnChannels finds the channel counts that NCCL chose and that the file says were forced, or says nothing of: who
// copies counts from NCCL's log into a table does not always tell. Nor does a log tell what a tuner asked for that is
// not ours. They are of algorithms and protocols whose counts rise. If nothing in the file tells any better, these show
// that the others with one count at each size were not asked for either: a sweep over channels has several.
func (r *Result) tellOwnChannels() {
	families := map[Series]map[nccl.Cell]*channelCounts{}
	of := func(s *Sample) map[nccl.Cell]*channelCounts {
		key := s.Series()
		if families[key] == nil {
			families[key] = map[nccl.Cell]*channelCounts{}
		}
		return families[key]
	}
	isLog := r.Format == formatText || r.Format == formatJSON
	asked := func(s *Sample) bool {
		by := cmp.Or(s.Setup, &Setup{})
		return s.Selection == SelectionForced && s.Channels > 0 &&
			(by.IsOurs() || by.MinChannels != "" || by.MinCTAs != "" || isLog && by.Tuner == "")
	}
	forced := func(s *Sample) bool { return s.Selection != SelectionDefault && s.Known() }
	for i := range r.Samples {
		s := &r.Samples[i]
		if !forced(s) {
			continue
		}
		all := of(s)
		c := all[s.Cell]
		if c == nil {
			c = &channelCounts{bySize: map[uint64]int{}}
			all[s.Cell] = c
		}
		c.told = c.told || s.Selection == SelectionOwnChannels
		c.asked = c.asked || asked(s)
		if n, seen := c.bySize[s.Bytes]; seen && n != s.Channels {
			c.bySize = nil
		} else if c.bySize != nil {
			c.bySize[s.Bytes] = s.Channels
		}
	}
	own := map[*channelCounts]bool{}
	for _, all := range families {
		told, several, rise := false, false, false
		for _, c := range all {
			told, several, rise = told || c.told, several || c.bySize == nil, rise || c.rise()
		}
		for _, c := range all {
			own[c] = !c.told && !c.asked && (c.rise() || rise && !told && !several)
		}
	}
	for i := range r.Samples {
		if s := &r.Samples[i]; forced(s) && s.Channels > 0 && own[of(s)[s.Cell]] {
			s.Selection = SelectionOwnChannels
		}
	}
}
