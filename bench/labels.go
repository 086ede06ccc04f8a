package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// labels finds what the rows of a run ran with that are of one operation.
type labels struct {
	*testRun
	op      operation
	coll    nccl.Coll
	refused string // why none of the rows can be used; empty: they can
	scale   uint64 // from scaleOf
	unsure  bool   // nobody knows who chose, unless they tell
	// Of variables: what they ask for, and whether they say how many channels there are at least or at most, or force
	// some.
	asked                        nccl.Config
	saysChannels, forcesChannels bool
}

func (u *testRun) labels(op operation, comm nccl.Comm, refused string, unsure bool) *labels {
	says, forces := u.settings.saysChannels()
	return &labels{u, op, collByName[string(op)], refused, u.scaleOf(op, comm.Ranks), unsure,
		u.settings.config(op), says, forces}
}

// scaleOf tells whether the log's bytes are the rows' (1) or a rank's part of them (ranks), by which of the two finds
// more of the sizes: that depends on the version and the collective.
func (u *testRun) scaleOf(op operation, ranks int) uint64 {
	if ranks < 2 || op != "allgather" && op != "reducescatter" {
		return 1
	}
	whole, part := 0, 0
	for i := range u.rows {
		if _, _, found := u.log.ran(op, u.rows[i].Bytes, u.rows[i].Pass); found {
			whole++
		}
		if _, _, found := u.log.ran(op, u.rows[i].Bytes/uint64(ranks), u.rows[i].Pass); found {
			part++
		}
	}
	if part > whole || part == whole && u.log.perRank {
		return uint64(ranks)
	}
	return 1
}

// claim is what somebody says of a configuration.
type claim struct {
	nccl.Config
	from Origin
}

// merge takes each part of a configuration from the first claim that has it, and says which one they disagree about.
func merge(claims ...claim) (c nccl.Config, from Origin, clash string) {
	var used [3]int
	var by [3]Origin
	for _, claim := range claims {
		for i, told := range [...]int{int(claim.Algo) + 1, int(claim.Proto) + 1, claim.Channels} {
			if told == 0 {
				continue
			}
			from = max(from, claim.from)
			switch what := [...]string{"the algorithm", "the protocol", "the number of channels"}[i]; {
			case used[i] == 0:
				used[i], by[i] = told, claim.from
			case used[i] == told || clash != "" || i == 2 && by[i] == originMeasured: // fewer run than asked for
			default:
				said := func(part int) string {
					return [...]string{nccl.Algo(part - 1).String(), nccl.Proto(part - 1).String(),
						strconv.Itoa(part)}[i]
				}
				clash = fmt.Sprintf(noteClash, what, said(used[i]), by[i], said(told), claim.from)
			}
		}
	}
	cell := nccl.Cell{Algo: nccl.Algo(used[0] - 1), Proto: nccl.Proto(used[1] - 1)}
	return nccl.Config{Cell: cell, Channels: used[2]}, from, clash
}

// ran is what NCCL's log and our tuner's tell of a size. Where NCCL ran what our tuner asked for, the channels are
// those asked for, as far as the communicator has them: NCCL uses fewer at small sizes, and a policy cannot change
// that. Their number is NCCL's own where our tuner left it to NCCL, or asked for more than NCCL chose in a release that
// only lets a tuner lower them.
func (l *labels) ran(row *row) (c nccl.Config, own, agreed, found bool) {
	c, agreed, found = l.log.ran(l.op, row.Bytes/l.scale, row.Pass)
	decided := l.log.at(l.op, row.Bytes, row.Pass).decided
	if decided == nil {
		return c, false, agreed, found
	}
	asked := *decided
	own = asked != noLabel && asked.Channels == 0 && !l.forcesChannels
	switch release, _ := nccl.ParseVersion(l.known.NCCL); {
	case !found:
		c = asked
	case !agreed || c.Cell != asked.Cell || asked.Channels == 0:
	case release.Has(nccl.ChannelsOnlyLower) && 0 < c.Channels && c.Channels < asked.Channels:
		own = true
	default:
		c = asked
	}
	return l.log.most.Cap(c), own, agreed, true
}

// of finds what one row ran with, who says so and who chose it, where a tuner was loaded ("": none). The caller is
// trusted most, then the row, NCCL's log and variables. clash is what they disagree about.
func (l *labels) of(row *row, tuner string) (c nccl.Config, from Origin, by Selection, clash string) {
	logged, ownChannels, agreed, found := l.ran(row)
	several := ""
	if found && !agreed {
		several = fmt.Sprintf(noteSeveral, l.op, row.Bytes)
	}
	if !found || !agreed {
		logged = noLabel
	}
	user, variables, byRow := noLabel, l.asked, originMeasured
	forcesCell := l.settings.forceCell() || tuner != "" || l.forcesChannels
	forcesChannels := l.saysChannels || tuner != ""
	if said := l.opts.Config; said != nil {
		user = nccl.Config{Cell: alone(said.Cell), Channels: said.Channels}
		forcesCell, forcesChannels = true, forcesChannels || user.Channels > 0
	}
	if l.isCSV {
		byRow = originFields
		forcesCell = forcesCell || row.Selection >= SelectionForced
		forcesChannels = forcesChannels || row.Selection == SelectionForced
	}
	if ownChannels {
		user.Channels, variables.Channels = 0, 0
	}
	c, from, clash = merge(claim{user, originUser}, claim{row.Config, byRow}, claim{logged, originMeasured},
		claim{variables, originVariables})
	clash = cmp.Or(several, clash)
	switch {
	case l.isCSV && !l.unsure && (from == originFields || from == originNone):
		by = row.Selection // the row says itself who chose
	case l.unsure && from < originUser && l.log.direct:
		return noLabel, originNone, SelectionUnknown, several
	case forcesCell && c.Channels > 0 && (ownChannels || !forcesChannels):
		by = SelectionOwnChannels
	case forcesCell:
		by = SelectionForced
	case !l.unsure:
		by = SelectionDefault
	}
	if found && logged == noLabel && from != originUser { // what was asked for is known not to be what ran
		return noLabel, originNone, by, several
	}
	return c, from, by, clash
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
	type cellSeries struct {
		Series
		nccl.Cell
	}
	counts := map[cellSeries]*channelCounts{}
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Selection == SelectionDefault || !s.Known() {
			continue
		}
		of := cellSeries{s.Series(), s.Cell}
		c := counts[of]
		if c == nil {
			c = &channelCounts{bySize: map[uint64]int{}}
			counts[of] = c
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
	type summary struct{ told, several, rise bool }
	all := map[Series]summary{}
	for of, c := range counts {
		a := all[of.Series]
		all[of.Series] = summary{a.told || c.told, a.several || c.bySize == nil, a.rise || c.rise()}
	}
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Selection == SelectionDefault || s.Channels == 0 || !s.Known() {
			continue
		}
		a, c := all[s.Series()], counts[cellSeries{s.Series(), s.Cell}]
		if !c.told && !c.asked && (c.rise() || a.rise && !a.told && !a.several) {
			s.Selection = SelectionOwnChannels
		}
	}
}
