package tuner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// Limits of what is tried.
const (
	mostFactors  = 12
	mostArms     = 9
	firstCells   = 3     // of them, besides NCCL's choice
	coveredTime  = 0.95  // of what NCCL predicts for a step's calls
	worthTrying  = 2     // times the least cost that NCCL predicts
	mostShapes   = 4096  // that are looked at: ever new sizes are no steps
	tooShort     = 0.001 // of a step: kinds of calls that NCCL predicts to take less are not tried
	sizesInRange = 8     // the largest size of a kind of calls is at most so many times the smallest
)

// fewerChannels are the channel counts that are tried for NCCL's own choice. NCCL uses no more than the communicator
// has.
var fewerChannels = []int{16, 8, 4}

// shapes are the calls of a communicator that learns. NCCL's thread adds them, the background reads them.
type shapes struct {
	base string // the meaning of the version by which they are decided; calls by other versions tell nothing
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
	micros  nccl.CostTable // of what is worth trying by all tables
}

// add notes a call that is new, or has a new table. A question without pipelined operations is no call of its own
// (docs/NCCL.md).
func (s *shapes) add(version string, q policy.Query, d policy.Decision) {
	if version != s.base || q.PipeOps == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := agree.HashCall(int(q.Coll), q.Bytes, q.PipeOps)
	choice, _ := q.Costs.NCCLChoice()
	one := s.all[hash]
	switch {
	case one == nil && len(s.all) == mostShapes:
		return
	case one == nil:
		one = &shape{Call: q.Call, pipeOps: q.PipeOps, choice: choice, micros: worthOf(q.Costs, choice)}
		s.all[hash] = one
	case one.choice != choice:
		one.choice = nccl.NoCell
	default:
		one.micros = together(one.micros, worthOf(q.Costs, choice), func(a, b float32) float32 { return max(a, b) })
	}
	one.ruled = one.ruled || d.Rule >= 0 || d.Write
}

// worthOf is what a table has of what is worth trying, NCCL's choice included.
func worthOf(c nccl.Costs, choice nccl.Cell) (worth nccl.CostTable) {
	for a, p := range nccl.Cells {
		cell := nccl.Cell{Algo: a, Proto: p}
		worth[a][p] = nccl.Unavailable
		if choice.Known() && c.Offers(cell) && c.Micros[c.Index(cell)] <= worthTrying*c.Micros[c.Index(choice)] {
			worth[a][p] = c.Micros[c.Index(cell)]
		}
	}
	return worth
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
	coll nccl.Coll
	nccl.Range
	choice nccl.Cell
	calls  int            // in a step
	micros nccl.CostTable // that all of them take
}

func (k kind) predicted() float64 { return float64(k.micros[k.choice.Algo][k.choice.Proto]) }

// factors returns what to try where a step takes so long and has so many of each call, those of the most time first,
// and what is left out.
func (s *shapes) factors(took time.Duration, calls map[uint64]int, settled func(nccl.Coll, nccl.Range) bool) (
	all []trial.Factor, left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reasons := map[string]int{}
	kinds, unused := s.kinds(calls, settled, reasons)
	total, covered := 0.0, 0.0
	for _, k := range kinds {
		total += k.predicted()
	}
	for _, k := range kinds {
		if covered >= coveredTime*total || len(all) == mostFactors {
			break
		}
		covered += k.predicted()
		if k.predicted() < tooShort*float64(took.Microseconds()) {
			reasons[fmt.Sprintf("calls that take less than %.1f %% of it, as NCCL predicts", 100*tooShort)] += k.calls
		} else if f := s.factorOf(k); len(f.Arms) > 1 {
			all = append(all, f)
		}
	}
	for reason, n := range reasons {
		left = append(left, fmt.Sprintf("%s of a step: %s", plural.Of(n, "call"), reason))
	}
	if unused > 0 {
		left = append(left, fmt.Sprintf("%s of calls that no step has: made once, or captured in a CUDA graph",
			plural.Of(unused, "kind")))
	}
	slices.Sort(left)
	return all, left
}

// kinds puts the calls of a step that may be tried together, those of the most time first. reasons counts the others.
// unused is how many shapes the step does not have.
func (s *shapes) kinds(calls map[uint64]int, settled func(nccl.Coll, nccl.Range) bool, reasons map[string]int) (
	kinds []kind, unused int) {
	hashes := slices.SortedFunc(maps.Keys(s.all), func(h, i uint64) int {
		a, b := s.all[h], s.all[i]
		return cmp.Or(cmp.Compare(a.Coll, b.Coll), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.pipeOps, b.pipeOps))
	})
	var last *kind // that the next call may belong to
	for _, hash := range hashes {
		one, n := s.all[hash], calls[hash]
		if n == 0 {
			unused++
			continue
		}
		k := kind{one.Coll, nccl.Range{Min: one.Bytes, Max: one.Bytes}, one.choice, n, one.micros}
		for a, p := range nccl.Cells {
			k.micros[a][p] *= float32(n)
		}
		why := ""
		switch {
		case one.pipeOps > 1:
			why = "calls in groups, which NCCL decides together"
		case one.ruled:
			why = "calls that the policy decides"
		case !one.choice.Known():
			why = "calls of which NCCL's choice is not known, or not always the same"
		case settled(k.coll, k.Range):
			why = "calls that an earlier job has tried"
		case last != nil && last.coll == k.coll && last.choice == k.choice && k.Max/sizesInRange <= last.Min:
			last.Max, last.calls = k.Max, last.calls+n
			last.micros = together(last.micros, k.micros, func(a, b float32) float32 { return a + b })
			continue
		default:
			kinds = append(kinds, k)
			last = &kinds[len(kinds)-1]
			continue
		}
		reasons[why] += n
		last = nil
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.predicted(), a.predicted()) })
	return kinds, unused
}

// factorOf returns the factor of a kind of calls.
func (s *shapes) factorOf(k kind) trial.Factor {
	f := trial.Factor{Coll: k.coll, Range: k.Range, CallsPerStep: float64(k.calls)}
	try := func(cell nccl.Cell, channels int) {
		if len(f.Arms) < mostArms {
			f.Arms = append(f.Arms, trial.Arm{Config: nccl.Config{Cell: cell, Channels: channels}})
		}
	}
	try(k.choice, 0)
	var cells []nccl.Cell
	for a, p := range nccl.Cells {
		if c := (nccl.Cell{Algo: a, Proto: p}); k.micros[a][p] >= 0 && c != k.choice {
			cells = append(cells, c)
		}
	}
	slices.SortStableFunc(cells, func(a, b nccl.Cell) int {
		return cmp.Compare(k.micros[a.Algo][a.Proto], k.micros[b.Algo][b.Proto])
	})
	first := min(len(cells), firstCells)
	for _, c := range cells[:first] {
		try(c, 0)
	}
	if s.checked(k.coll, k.choice.Algo) {
		for _, n := range fewerChannels {
			try(k.choice, n)
		}
	}
	for _, c := range cells[first:] {
		try(c, 0)
	}
	return f
}

// learn starts learning, on the rank of the first slot.
func (c *Comm) learn(peer *trial.Peer, change time.Duration, base *policyfile.Version) {
	if c.info.Clock == nil || c.info.NewStamps == nil {
		return
	}
	unchecked := c.info.NCCL.MayUseUncheckedAllGather()
	c.shapes = &shapes{base: base.Meaning(), all: map[uint64]*shape{},
		checked: func(coll nccl.Coll, a nccl.Algo) bool {
			return nccl.ChannelsAreChecked(coll, a, c.info.Nodes, unchecked)
		}}
	log := c.log.About(about(c.info))
	config := c.trialConfig(peer, change)
	// What tunefit status shows is the evidence, which has the finding in it.
	config.Tell = c.publisher(func(context.Context, []byte) error { return nil })
	log.Infof("%s=%s: trying what makes steps shorter; algorithms and channel counts add in different orders, so sums "+
		"may change in their last bits", EnvLearn, c.settings.learn)
	const outcome = "nothing is learned any more, and the version in force stays"
	c.background(outcome, func(ctx context.Context) {
		kept := c.evidence()
		earlier, settled := kept.earlier()
		if kept.damaged != nil {
			log.Warnf("%s=%s: left out: %v", EnvLearn, c.settings.learn, kept.damaged)
		}
		trial.Learn(ctx, config, trial.Subject{
			Evidence: trial.Evidence{Format: trial.EvidenceFormat, Version: trial.EvidenceVersion, Key: c.key(),
				Comm: c.info.Comm, Name: c.info.Name, NCCL: kept.nccl, Machine: kept.machine, Began: time.Now()},
			Budget: c.settings.learnBudget, Earlier: earlier,
			Choose: func(step time.Duration, calls map[uint64]int) ([]trial.Factor, []string) {
				return c.shapes.factors(step, calls, settled)
			},
			With: func(factors []trial.Factor, arms []int) (trial.Version, error) {
				return c.with(base, factors, arms)
			},
			Save: func(ctx context.Context, e trial.Evidence) {
				kept.save(e, log)
				c.tell(ctx, e, log)
			},
		})
	})
}

// with returns a version with a row for each factor whose arm is not NCCL's choice. It comes after the rows of base.
func (c *Comm) with(base *policyfile.Version, factors []trial.Factor, arms []int) (*policyfile.Version, error) {
	var rows []byte
	for i, k := range arms {
		if k > 0 {
			rows = append(rows, rowOf(factors[i], factors[i].Arms[k], c.info.Comm, "")...)
		}
	}
	return c.extended(base, rows)
}

// learnedHeader is the first line of learned.csv.
const learnedHeader = "collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,nccl\n"

// rowOf is the row of learned.csv for an arm. release may be empty: for all.
func rowOf(f trial.Factor, a trial.Arm, comm nccl.Comm, release string) string {
	return fmt.Sprintf("%s,%d,%d,%s,%s,%d,%d,%d,%s\n", f.Coll, f.Min, f.Max, a.Algo, a.Proto, cmp.Or(a.Channels, -1),
		comm.Nodes, comm.Ranks, release)
}

// extended returns a version with rows of learned.csv after its own.
func (c *Comm) extended(base *policyfile.Version, rows []byte) (*policyfile.Version, error) {
	if len(rows) == 0 {
		return base, nil
	}
	b, err := base.Bundle()
	if err != nil {
		return nil, err
	}
	if b.Added.Name == "" {
		b.Added = policyfile.Source{Name: LearnedFile, Text: []byte(learnedHeader)}
	}
	b.Added.Text = slices.Concat(b.Added.Text, rows)
	content := b.Encode()
	return c.plugin.loader.Decode(content, agree.DigestOf(content), telemetry.Log{})
}

// tell publishes to tunefit status what is known by now.
func (c *Comm) tell(ctx context.Context, e trial.Evidence, log telemetry.Log) {
	text, err := json.Marshal(e)
	if err == nil {
		err = c.member.Note(ctx, text)
	}
	if err != nil && ctx.Err() == nil {
		log.Infof("tunefit status cannot show what is learned: %v", err)
	}
}
