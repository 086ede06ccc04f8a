package tuner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// Limits of what is tried.
const (
	mostFactors  = 12
	mostArms     = 9
	firstCells   = 3     // of them, besides NCCL's choice
	coveredTime  = 0.95  // of what NCCL predicts for a step's calls
	worthTrying  = 2     // times the least cost that NCCL predicts
	cannotMatter = 0.002 // of a step, for all calls of a kind
	mostShapes   = 4096  // that are looked at: ever new sizes are no steps
	sizesInRange = 8     // the largest size of a kind of calls is at most so many times the smallest
)

// fewerChannels are the channel counts that are tried for NCCL's own choice. NCCL uses no more than the communicator
// has.
var fewerChannels = []int{16, 8, 4}

// shapes are the calls of a communicator that learns. NCCL's thread adds them, the background reads them.
type shapes struct {
	base string // the effect digest of the version by which they are decided; calls by other versions tell nothing
	// checked reports whether NCCL checks a channel count, so that it may be asked for.
	checked func(nccl.Coll, nccl.Algo) bool

	mu  sync.Mutex
	all map[uint64]*shape // by agree.HashCall
}

// shape is a call, and what NCCL's cost tables say about it.
type shape struct {
	nccl.Call
	pipeOps int
	choice  nccl.Cell      // NoCell: not known, or not the same by all tables
	ruled   bool           // a row or the model decides it
	micros  nccl.CostTable // the most by all tables, of cells that all of them offer
}

// add notes a call that is new, or has a new table. A question without pipelined operations is no call of its own
// (docs/dev/NCCL.md).
func (s *shapes) add(version string, q policy.Query, d policy.Decision) {
	if version != s.base || q.PipeOps == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := agree.HashCall(int(q.Coll), q.Bytes, q.PipeOps)
	choice, _ := q.Costs.NCCLChoice()
	var micros nccl.CostTable
	for a, p := range nccl.Cells {
		if cell := (nccl.Cell{Algo: a, Proto: p}); q.Costs.Offers(cell) {
			micros[a][p] = q.Costs.Micros[q.Costs.Index(cell)]
		} else {
			micros[a][p] = nccl.Unavailable
		}
	}
	one := s.all[hash]
	switch {
	case one == nil && len(s.all) == mostShapes:
		return
	case one == nil:
		one = &shape{Call: q.Call, pipeOps: q.PipeOps, choice: choice, micros: micros}
		s.all[hash] = one
	case one.choice != choice:
		one.choice = nccl.NoCell
	}
	one.micros = together(one.micros, micros, func(a, b float32) float32 { return max(a, b) })
	one.ruled = one.ruled || d.Rule >= 0 || d.Write
}

// together is what two tables say of the cells that both have.
func together(a, b nccl.CostTable, of func(a, b float32) float32) nccl.CostTable {
	for i, p := range nccl.Cells {
		if a[i][p] < 0 || b[i][p] < 0 {
			a[i][p] = nccl.Unavailable
		} else {
			a[i][p] = of(a[i][p], b[i][p])
		}
	}
	return a
}

// kind is a factor while it is made: calls of neighbouring sizes that NCCL treats alike.
type kind struct {
	trial.Factor
	choice nccl.Cell
	micros nccl.CostTable // what all of them take in a step
}

func (k kind) predicted() float64 { return float64(k.micros[k.choice.Algo][k.choice.Proto]) }

// factors returns what to try where a step has so many of each call and takes so long, those of the most time first,
// and what is left out.
func (s *shapes) factors(calls map[uint64]int, step time.Duration, tried func(nccl.Coll, nccl.Range) bool) (
	all []trial.Factor, left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds, left := s.kinds(calls, tried)
	total, covered := 0.0, 0.0
	for _, k := range kinds {
		total += k.predicted()
	}
	for _, k := range kinds {
		if covered >= coveredTime*total || len(all) == mostFactors {
			break
		}
		if k.predicted() < cannotMatter*float64(step.Microseconds()) {
			left = append(left, fmt.Sprintf("%s %s, and what takes less: NCCL predicts below %g %% of a step", k.Coll,
				k.Range, 100*cannotMatter))
			break
		}
		covered += k.predicted()
		if k.Arms = s.arms(k); len(k.Arms) > 1 {
			all = append(all, k.Factor)
		}
	}
	return all, left
}

// kinds puts the calls of a step that may be tried together, those of the most time first. left says what the others
// are.
func (s *shapes) kinds(calls map[uint64]int, tried func(nccl.Coll, nccl.Range) bool) (kinds []kind, left []string) {
	hashes := slices.SortedFunc(maps.Keys(s.all), func(h, i uint64) int {
		a, b := s.all[h], s.all[i]
		return cmp.Or(cmp.Compare(a.Coll, b.Coll), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.pipeOps, b.pipeOps))
	})
	reasons, unused := map[string]int{}, 0
	var last *kind // that the next call may belong to
	for _, hash := range hashes {
		one, n := s.all[hash], calls[hash]
		sizes := nccl.Range{Min: one.Bytes, Max: one.Bytes}
		why := ""
		switch {
		case n == 0:
			unused++
			continue
		case one.pipeOps > 1:
			why = "calls in groups, which NCCL decides together"
		case one.ruled:
			why = "calls that the policy decides"
		case !one.choice.Known():
			why = "calls of which NCCL's default is not known, or not always the same"
		case tried(one.Coll, sizes):
			why = "calls that an earlier job has tried"
		}
		if why != "" {
			reasons[why] += n
			last = nil
			continue
		}
		if last == nil || last.Coll != one.Coll || last.choice != one.choice || one.Bytes/sizesInRange > last.Min {
			kinds = append(kinds, kind{Factor: trial.Factor{Coll: one.Coll, Range: sizes}, choice: one.choice})
			last = &kinds[len(kinds)-1]
		}
		last.Max = one.Bytes
		last.CallsPerStep += float64(n)
		last.micros = together(last.micros, one.micros, func(a, b float32) float32 { return a + float32(n)*b })
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.predicted(), a.predicted()) })
	for reason, n := range reasons {
		left = append(left, fmt.Sprintf("%s of a step: %s", wording.Plural(n, "call"), reason))
	}
	if unused > 0 {
		left = append(left, fmt.Sprintf("%s that no step has: made once, or captured in a CUDA graph",
			wording.Plural(unused, "call signature")))
	}
	slices.Sort(left)
	return kinds, left
}

// arms are what is tried for a kind of calls: NCCL's choice, and the others that cost least or use fewer channels.
func (s *shapes) arms(k kind) (arms []trial.Arm) {
	arms = []trial.Arm{{Config: nccl.Config{Cell: k.choice}}}
	for a, p := range nccl.Cells {
		cell, micros := nccl.Cell{Algo: a, Proto: p}, float64(k.micros[a][p])
		if cell != k.choice && micros >= 0 && micros <= worthTrying*k.predicted() {
			arms = append(arms, trial.Arm{Config: nccl.Config{Cell: cell}})
		}
	}
	slices.SortStableFunc(arms[1:], func(a, b trial.Arm) int {
		return cmp.Compare(k.micros[a.Algo][a.Proto], k.micros[b.Algo][b.Proto])
	})
	if s.checked(k.Coll, k.choice.Algo) {
		for i, n := range fewerChannels {
			arm := trial.Arm{Config: nccl.Config{Cell: k.choice, Channels: n}}
			arms = slices.Insert(arms, min(len(arms), 1+firstCells+i), arm)
		}
	}
	return arms[:min(len(arms), mostArms)]
}

// newShapes are those of a communicator whose calls are decided by base.
func newShapes(base *policyfile.Version, info CommInfo) *shapes {
	unchecked := info.NCCL.MayUseUncheckedAllGather()
	return &shapes{base: base.EffectDigest(), all: map[uint64]*shape{},
		checked: func(coll nccl.Coll, a nccl.Algo) bool {
			return nccl.ChannelsAreChecked(coll, a, info.Nodes, unchecked)
		}}
}
