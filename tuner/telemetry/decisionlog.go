package telemetry

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// A DecisionLog writes one line per new decision of a communicator, for
// NCCL_TUNER_LOG=decisions.
//
// It sees the queries that the cache in C does not know. A shape that the cache has evicted is
// asked again, and not written again. How often a shape is used is not counted, because a known
// shape must cost nothing. NCCL's thread alone adds to it.
type DecisionLog struct {
	log    Log
	comm   string // the communicator's identity; "": NCCL tells none
	engine *policy.Engine
	seed   maphash.Seed

	seen map[uint64]struct{} // hashes of lines written
	full bool
	made map[string]int // decisions logged, by what made them
}

// maxDecisions bounds the memory of a communicator that sees ever new shapes.
const maxDecisions = 1 << 16

// NewDecisionLog begins the log of an engine's decisions for one communicator, by its identity. e is nil where NCCL
// decides everything. made counts them for SumUp, those of all engines together.
func NewDecisionLog(log Log, comm string, e *policy.Engine, made map[string]int) *DecisionLog {
	return &DecisionLog{log: log, comm: comm, engine: e, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{},
		made: made}
}

// Add logs an answer to a query, if it is a new decision, and before that what NCCL offers, if that is new.
func (l *DecisionLog) Add(q policy.Query, a policy.Answer) {
	if l.full {
		return
	}
	d := DecisionOf(l.engine, q, a)
	d.ID = l.comm
	if l.isNew(&d) {
		if cells := offers(q); cells != nil {
			if offered := (&record.Available{ID: l.comm, Coll: q.Coll, Cells: cells}); l.isNew(offered) {
				l.log.Event(Info, offered)
			}
		}
		l.made[d.By]++
		l.log.Event(Info, &d)
	}
}

// mostSums bounds what one communicator says at its end.
const mostSums = 100

// SumUp logs how many decisions each row, the model and NCCL have made.
func SumUp(log Log, comm string, made map[string]int) {
	for i, by := range slices.Sorted(maps.Keys(made)) {
		if i == mostSums {
			log.Infof("... and %d more", len(made)-i)
			return
		}
		log.Event(Info, &record.Sum{ID: comm, By: by, Decisions: made[by]})
	}
}

// isNew reports that an event is to be logged, and notes that it was.
func (l *DecisionLog) isNew(e record.Event) bool {
	key := maphash.String(l.seed, record.Line(e))
	if _, known := l.seen[key]; known || l.full {
		return false
	}
	if l.full = len(l.seen) == maxDecisions; l.full {
		l.log.Infof("%d decisions are logged for this communicator, no more are", maxDecisions)
		return false
	}
	l.seen[key] = struct{}{}
	return true
}

// DecisionOf is what the log says of an answer to a query. e is nil where NCCL decides everything.
func DecisionOf(e *policy.Engine, q policy.Query, a policy.Answer) record.Decision {
	d := record.Decision{Call: q.Call, Asks: nccl.Config{Cell: nccl.NoCell}, PipeOps: q.PipeOps, Config: a.Config,
		ChunkBytes: a.ChunkBytes, By: decidedBy(e, a), Because: because(e, a)}
	d.Default, _ = q.Costs.NCCLChoice()
	return d
}

// offers says which cells NCCL offers for a collective; nil where its costs are not known. Whoever plans
// measurements need not try the rest.
func offers(q policy.Query) (cells []nccl.Cell) {
	if q.Costs.AvailableOnly {
		return nil
	}
	for algo, proto := range nccl.Cells {
		if cell := (nccl.Cell{Algo: algo, Proto: proto}); q.Costs.Offers(cell) {
			cells = append(cells, cell)
		}
	}
	return cells
}

// decidedBy names a row, a model or NCCL.
func decidedBy(e *policy.Engine, a policy.Answer) string {
	switch a.By {
	case policy.ByRow:
		return e.Policy.Place(a.Rule)
	case policy.ByModel:
		return "model " + e.Model.Name
	}
	return record.ByNCCL
}

// Reason describes an answer in words: the decision, NCCL's default that it replaces, and what the model
// expects. If neither a row nor the model decided, it says why.
func Reason(e *policy.Engine, q policy.Query, a policy.Answer) string {
	cell, _ := q.Costs.NCCLChoice()
	own := "NCCL's default"
	if cell.Known() {
		own = cell.String()
	}
	ours := choice(a.Decision)
	if a.Algo >= 0 && a.Cell != cell {
		ours += " instead of " + own
	}
	if why := because(e, a); why != "" {
		ours += ", " + why
	}
	return ours
}

// because is what the model expects, or why neither a row nor the model decided.
func because(e *policy.Engine, a policy.Answer) string {
	switch a.By {
	case policy.ByRow:
		return ""
	case policy.ByModel:
		return expected(a.Choice)
	}
	var why []string
	if e != nil && e.Policy != nil {
		why = append(why, "no row matches")
	}
	if a.Asked {
		abstains := "the model abstains: " + a.Abstention.String()
		if a.Abstention == model.AbstainGain {
			abstains += fmt.Sprintf(" (%s, %s)", a.Choice.Cell, expected(a.Choice))
		}
		why = append(why, abstains)
	}
	return strings.Join(why, ", ")
}

// expected is what a model expects. Uncertain is the standard deviation of the
// ratio of both times.
func expected(c model.Choice) string {
	if c.Verified {
		return fmt.Sprintf("%.4g us verified, %.1f %% less than NCCL's", c.Micros(), 100*c.Gain())
	}
	uncertain := math.Hypot(c.Sigma, c.Default.Sigma)
	return fmt.Sprintf("%.4g us expected, %.1f %% less than NCCL's (uncertain by %.1f %%)", c.Micros(), 100*c.Gain(),
		100*uncertain)
}

func choice(d policy.Decision) string {
	text := "NCCL's default"
	if d.Known() {
		text = d.Config.String()
	}
	if d.ChunkBytes > 0 {
		text += ", chunks of " + nccl.FormatBytes(d.ChunkBytes)
	}
	return text
}
