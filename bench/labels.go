package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

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
			clash = fmt.Sprintf(noteClash, what, used, usedBy, other, by)
		}
	}
	for _, c := range claims {
		l.forcesCell, l.forcesChannels = l.forcesCell || c.forcesCell, l.forcesChannels || c.forcesChannels
		if c.Config != noLabel {
			l.from = max(l.from, c.from)
		}
		if !takePart(&l.Algo, &algoBy, c.Algo, Unknown, c.from) {
			disagree("the algorithm", l.Algo, algoBy, c.Algo, c.from)
		}
		if !takePart(&l.Proto, &protoBy, c.Proto, Unknown, c.from) {
			disagree("the protocol", l.Proto, protoBy, c.Proto, c.from)
		}
		// Variables ask for channels, and fewer may run.
		if !takePart(&l.Channels, &channelsBy, c.Channels, 0, c.from) && channelsBy != originMeasured {
			disagree("the number of channels", l.Channels, channelsBy, c.Channels, c.from)
		}
	}
	return l, clash
}

// takePart sets a part that nobody has told yet. It reports false where the part is told otherwise.
func takePart[T comparable](part *T, by *Origin, told, unknown T, from Origin) bool {
	if *part == unknown {
		*part, *by = told, from
	}
	return told == unknown || told == *part
}

// claims are what the variables of a run and the caller say. A tuner that was loaded may have chosen.
func (u *testRun) claims(op operation, tuner string) []claim {
	v := u.variables
	algo, proto := v["NCCL_ALGO"], v["NCCL_PROTO"]
	says, forces := v.saysChannels()
	c := claim{from: originVariables, forcesCell: algo+proto+tuner != "" || forces, forcesChannels: says || tuner != ""}
	c.Cell = alone(CellNamed(onlyChoice(algo, string(op)), onlyChoice(proto, string(op))))
	for _, kind := range channelKinds {
		if least, most := channelRange(v.get, kind); least == most && least > 0 {
			c.Channels = least
		}
	}
	if said := u.opts.Config; said != nil {
		return []claim{c, {nccl.Config{Cell: alone(said.Cell), Channels: said.Channels}, originUser, true,
			said.Channels > 0}}
	}
	return []claim{c}
}

// asksCell reports whether variables or the caller force a configuration that they name.
func (u *testRun) asksCell(op operation) bool {
	return slices.ContainsFunc(u.claims(op, ""), func(c claim) bool { return c.forcesCell && c.Config != noLabel })
}

// asks is the configuration that a run was told to use, as far as it is one.
func (u *testRun) asks(op operation) nccl.Config {
	claims := u.claims(op, "")
	if u.mark != nil {
		claims = append(claims, claim{Config: u.mark.asked})
	}
	l, _ := merge(claims)
	return l.Config
}

// ran is what NCCL's log and our tuner's tell of a size. Where NCCL ran what our tuner asked for, the channels are
// those asked for, as far as the communicator has them: NCCL uses fewer at small sizes, and a policy cannot change
// that. Their number is NCCL's own where our tuner left it to NCCL, or asked for more than NCCL chose in a release that
// only lets a tuner lower them.
func (u *testRun) ran(key logKey, scale uint64) (c nccl.Config, own, agreed, found bool) {
	c, agreed, found = u.log.ran(key, scale)
	decided := u.log.at(key).decided
	if decided == nil {
		return c, false, agreed, found
	}
	asked := *decided
	_, forced := u.variables.saysChannels()
	own = asked != noLabel && asked.Channels == 0 && !forced
	switch release, _ := nccl.ParseVersion(u.known.NCCL); {
	case !found:
		c = asked
	case !agreed || c.Cell != asked.Cell || asked.Channels == 0:
	case release.Has(nccl.ChannelsOnlyLower) && 0 < c.Channels && c.Channels < asked.Channels:
		own = true
	default:
		c = asked
	}
	return u.log.most.Cap(c), own, agreed, true
}

// label finds what one row ran with, who chose it and who says so. It merges what is known of the row with the claims
// of its run. After a hint (unsure) nobody knows who chose, unless they tell.
func (u *testRun) label(row *row, key logKey, scale uint64, claims []claim, unsure bool) (l claim, by Selection,
	clash string) {
	logged, ownChannels, agreed, found := u.ran(key, scale)
	several := ""
	if found && !agreed {
		several, logged = fmt.Sprintf(noteSeveral, key.op, row.Bytes), noLabel
	}
	claims = slices.Clone(claims)
	if ownChannels {
		for i := range claims {
			claims[i].Channels = 0
		}
	}
	switch forced := row.Selection >= SelectionForced; {
	case row.Config == noLabel:
	case u.isCSV:
		claims = append(claims, claim{row.Config, originFields, forced, row.Selection == SelectionForced})
	default:
		claims = append(claims, claim{Config: row.Config, from: originMeasured})
	}
	if found && logged != noLabel {
		claims = append(claims, claim{Config: logged, from: originMeasured})
	}
	l, clash = merge(claims)
	switch {
	case u.isCSV && !unsure && (l.from == originFields || l.from == originNone):
		by = row.Selection // the row says itself who chose
	case unsure && l.from < originUser && u.log.direct:
		by, l.Config, l.from, clash = SelectionUnknown, noLabel, originNone, ""
	case l.forcesCell && l.Channels > 0 && (ownChannels || !l.forcesChannels):
		by = SelectionOwnChannels
	case l.forcesCell:
		by = SelectionForced
	case unsure:
		by = SelectionUnknown
	default:
		by = SelectionDefault
	}
	if found && logged == noLabel && l.from != originUser { // what was asked for is known not to be what ran
		l.Config, l.from, clash = noLabel, originNone, ""
	}
	return l, by, cmp.Or(several, clash)
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
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Selection == SelectionDefault || !s.Known() {
			continue
		}
		all := families[s.Series()]
		if all == nil {
			all = map[nccl.Cell]*channelCounts{}
			families[s.Series()] = all
		}
		c := all[s.Cell]
		if c == nil {
			c = &channelCounts{bySize: map[uint64]int{}}
			all[s.Cell] = c
		}
		by := cmp.Or(s.Setup, &Setup{})
		c.told = c.told || s.Selection == SelectionOwnChannels
		c.asked = c.asked || s.Selection == SelectionForced && s.Channels > 0 &&
			(by.IsOurs() || by.MinChannels != "" || by.MinCTAs != "" || r.Format.isLog() && by.Tuner == "")
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
		s := &r.Samples[i]
		if s.Selection != SelectionDefault && s.Channels > 0 && own[families[s.Series()][s.Cell]] {
			s.Selection = SelectionOwnChannels
		}
	}
}
