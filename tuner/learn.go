package tuner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
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
	mostArms     = 9     // of which six at a time are drawn
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
	choice  nccl.Cell // NoCell: not known, or not the same by all tables
	ruled   bool      // a row or the model decides it
	cells   uint32    // those worth trying by all tables
	micros  [nccl.NumAlgos * nccl.NumProtos]float32
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
	if one == nil && len(s.all) == mostShapes {
		return
	}
	if one == nil {
		one = &shape{Call: q.Call, pipeOps: q.PipeOps, choice: choice, cells: ^uint32(0)}
		s.all[hash] = one
	}
	one.ruled = one.ruled || d.Rule >= 0 || d.Write
	if choice != one.choice || !choice.Known() {
		one.choice, one.cells = nccl.NoCell, 0
		return
	}
	least := q.Costs.Micros[q.Costs.Index(choice)]
	var worth uint32
	for a, p := range nccl.Cells {
		cell := nccl.Cell{Algo: a, Proto: p}
		if !q.Costs.Offers(cell) {
			continue
		}
		at := placeOf(cell)
		if micros := q.Costs.Micros[q.Costs.Index(cell)]; micros <= worthTrying*least {
			worth |= 1 << at
			one.micros[at] = max(one.micros[at], micros)
		}
	}
	one.cells &= worth
}

func placeOf(c nccl.Cell) int { return int(c.Algo)*nccl.NumProtos + int(c.Proto) }

// counted is a shape of which a step has so many calls.
type counted struct {
	*shape
	calls int
}

func (c counted) micros() float64 {
	return float64(c.calls) * float64(c.shape.micros[placeOf(c.choice)])
}

// kind is a factor while it is made: calls of neighbouring sizes that NCCL treats alike.
type kind struct {
	nccl.Range
	most   counted // the shape that takes most time
	cells  uint32  // worth trying for all of its shapes
	calls  int     // in a step, of all its shapes
	micros float64 // they take, as NCCL predicts
}

// factors returns what to try where a step takes so long and has so many of each call, those of the most time first,
// and what is left out.
func (s *shapes) factors(took time.Duration, calls map[uint64]int, settled func(nccl.Coll, nccl.Range) bool) (
	all []trial.Factor, left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var step []counted
	for hash, n := range calls {
		if one := s.all[hash]; one != nil {
			step = append(step, counted{one, n})
		}
	}
	slices.SortFunc(step, func(a, b counted) int {
		return cmp.Or(cmp.Compare(a.Coll, b.Coll), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.pipeOps, b.pipeOps))
	})
	reasons := map[string]int{}
	kinds := kindsOf(step, func(c counted) bool {
		why := ""
		switch {
		case c.pipeOps > 1:
			why = "calls in groups, which NCCL decides together"
		case c.ruled:
			why = "calls that the policy decides"
		case !c.choice.Known():
			why = "calls of which NCCL's choice is not known, or not always the same"
		case settled(c.Coll, nccl.Range{Min: c.Bytes, Max: c.Bytes}):
			why = "calls that an earlier job has tried"
		default:
			return true
		}
		reasons[why] += c.calls
		return false
	})
	total, covered := 0.0, 0.0
	for _, k := range kinds {
		total += k.micros
	}
	for _, k := range kinds {
		if covered >= coveredTime*total || len(all) == mostFactors {
			break
		}
		covered += k.micros
		if k.micros < tooShort*float64(took.Microseconds()) {
			reasons[fmt.Sprintf("calls that take less than %.1f %% of it, as NCCL predicts", 100*tooShort)] += k.calls
		} else if f := s.factorOf(k); len(f.Arms) > 1 {
			all = append(all, f)
		}
	}
	for reason, n := range reasons {
		left = append(left, fmt.Sprintf("%s of a step: %s", plural.Of(n, "call"), reason))
	}
	if n := len(s.all) - len(step); n > 0 {
		left = append(left, fmt.Sprintf("%s of calls that no step has: made once, or captured in a CUDA graph",
			plural.Of(n, "kind")))
	}
	slices.Sort(left)
	return all, left
}

// kindsOf puts calls that may be tried together, those of the most time first. Calls come in the order of sizes.
func kindsOf(step []counted, may func(counted) bool) (kinds []kind) {
	open := false // the last kind may grow
	for _, c := range step {
		if !may(c) {
			open = false
			continue
		}
		if n := len(kinds) - 1; open && kinds[n].most.Coll == c.Coll && kinds[n].most.choice == c.choice &&
			c.Bytes/sizesInRange <= kinds[n].Min {
			k := &kinds[n]
			k.Max, k.cells, k.calls, k.micros = c.Bytes, k.cells&c.shape.cells, k.calls+c.calls, k.micros+c.micros()
			if c.micros() > k.most.micros() {
				k.most = c
			}
			continue
		}
		kinds = append(kinds, kind{nccl.Range{Min: c.Bytes, Max: c.Bytes}, c, c.shape.cells, c.calls, c.micros()})
		open = true
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.micros, a.micros) })
	return kinds
}

// factorOf returns the factor of a kind of calls.
func (s *shapes) factorOf(k kind) trial.Factor {
	f := trial.Factor{Coll: k.most.Coll, Range: k.Range, CallsPerStep: float64(k.calls)}
	try := func(cell nccl.Cell, channels int) {
		if len(f.Arms) < mostArms {
			f.Arms = append(f.Arms, trial.Arm{Config: nccl.Config{Cell: cell, Channels: channels}})
		}
	}
	try(k.most.choice, 0)
	var cells []nccl.Cell
	for rest := k.cells; rest != 0; rest &= rest - 1 {
		at := bits.TrailingZeros32(rest)
		c := nccl.Cell{Algo: nccl.Algo(at / nccl.NumProtos), Proto: nccl.Proto(at % nccl.NumProtos)}
		if c != k.most.choice {
			cells = append(cells, c)
		}
	}
	slices.SortStableFunc(cells, func(a, b nccl.Cell) int {
		return cmp.Compare(k.most.shape.micros[placeOf(a)], k.most.shape.micros[placeOf(b)])
	})
	first := min(len(cells), firstCells)
	for _, c := range cells[:first] {
		try(c, 0)
	}
	if s.checked(k.most.Coll, k.most.choice.Algo) {
		for _, n := range fewerChannels {
			try(k.most.choice, n)
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
