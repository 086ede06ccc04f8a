package bench

import (
	"maps"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// channelCounts are the channel counts that a file has of one algorithm and protocol.
type channelCounts struct {
	told, ours bool           // some are said to be NCCL's own, or our library asked for some
	bySize     map[uint64]int // the only count at each size; nil: there are several
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
// copies counts from NCCL's log into a table does not always tell. They are of algorithms and protocols whose counts
// rise. If nothing in the file tells any better, these show that the others with one count at each size were not asked
// for either: a sweep over channels has several.
func (r *Result) tellOwnChannels() {
	type series struct { // what is measured alike
		nccl.Coll
		nccl.Comm
		dtype, redop, options, variables string
		inPlace                          bool
	}
	families := map[series]map[nccl.Cell]*channelCounts{}
	of := func(s *Sample) map[nccl.Cell]*channelCounts {
		key := series{Coll: s.Coll, Comm: s.Comm, dtype: s.DType, redop: s.RedOp, inPlace: s.InPlace}
		if s.Setup != nil {
			key.options, key.variables = s.Setup.Options, s.Setup.Variables
		}
		if families[key] == nil {
			families[key] = map[nccl.Cell]*channelCounts{}
		}
		return families[key]
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
		c.ours = c.ours || s.Selection == SelectionForced && s.Channels > 0 && s.Setup != nil && s.Setup.IsOurs()
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
			own[c] = !c.told && !c.ours && (c.rise() || rise && !told && !several)
		}
	}
	for i := range r.Samples {
		if s := &r.Samples[i]; forced(s) && s.Channels > 0 && own[of(s)[s.Cell]] {
			s.Selection = SelectionOwnChannels
		}
	}
}
