package telemetry

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// A DecisionLog writes one line per new decision of a communicator, for
// NCCL_TUNER_LOG=decisions, and at the end how many there were by what decided them.
//
// It sees the queries that the cache in C does not know. A shape that the cache has evicted is
// asked again, and not written again. How often a shape is used is not counted, because a known
// shape must cost nothing. NCCL's thread alone adds to it; SumUp comes when that has ended.
type DecisionLog struct {
	log    Log
	engine *policy.Engine
	seed   maphash.Seed

	seen    map[uint64]struct{} // hashes of lines written
	offered map[string]bool     // lines written about what NCCL offers
	full    bool
	asked   int         // decisions, new or not
	rows    map[int]int // new decisions by index of the rule
	model   int
	nccl    int
}

// maxDecisions bounds the memory of a communicator that sees ever new shapes.
const maxDecisions = 1 << 16

// maxRowsSummed bounds what one communicator says at its end.
const maxRowsSummed = 100

// NewDecisionLog begins the log of an engine's decisions for one communicator.
func NewDecisionLog(log Log, e *policy.Engine) *DecisionLog {
	return &DecisionLog{log: log, engine: e, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{},
		offered: map[string]bool{}, rows: map[int]int{}}
}

// Add logs an answer to a query, if it is a new decision.
func (l *DecisionLog) Add(q policy.Query, a policy.Answer) {
	l.asked++
	if l.full {
		return
	}
	line := fmt.Sprintf("%s %s, %d pipelined: %s, decided by %s", q.Coll, nccl.FormatBytes(q.Bytes), q.PipeOps,
		Reason(l.engine, q, a), decidedBy(l.engine, a))
	key := maphash.String(l.seed, line)
	if _, known := l.seen[key]; known {
		return
	}
	if len(l.seen) == maxDecisions {
		l.full = true
		l.log.Infof("%d decisions are logged for this communicator, no more are", maxDecisions)
		return
	}
	l.seen[key] = struct{}{}
	if offered := offers(q); offered != "" && !l.offered[offered] {
		l.offered[offered] = true
		l.log.Infof("%s", offered)
	}
	switch a.By {
	case policy.ByRow:
		l.rows[a.Rule]++
	case policy.ByModel:
		l.model++
	default:
		l.nccl++
	}
	l.log.Infof("%s", line)
}

// offers says which cells NCCL offers for a collective; "" where its costs are not known. Whoever plans
// measurements need not try the rest.
func offers(q policy.Query) string {
	if q.Costs.AvailableOnly {
		return ""
	}
	var names []string
	for algo, proto := range nccl.Cells {
		if cell := (nccl.Cell{Algo: algo, Proto: proto}); q.Costs.Offers(cell) {
			names = append(names, cell.String())
		}
	}
	return fmt.Sprintf("available in NCCL for %s: %s", q.Coll, strings.Join(names, ", "))
}

// decidedBy names a row, a model or NCCL.
func decidedBy(e *policy.Engine, a policy.Answer) string {
	switch a.By {
	case policy.ByRow:
		return e.Policy.Place(a.Rule)
	case policy.ByModel:
		return "model " + e.Model.Name
	}
	return "NCCL"
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
	switch a.By {
	case policy.ByRow:
		return ours
	case policy.ByModel:
		return ours + ", " + expected(a.Choice)
	}
	if e.Policy != nil {
		ours += ", no row matches"
	}
	if a.Asked {
		ours += ", the model abstains: " + a.Abstention.String()
		if a.Abstention == model.AbstainGain {
			ours += fmt.Sprintf(" (%s, %s)", a.Choice.Cell, expected(a.Choice))
		}
	}
	return ours
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

// SumUp logs how many call signatures each row, the model and NCCL have decided. It counts distinct ones, not calls.
// One that was asked more than once was evicted in between.
func (l *DecisionLog) SumUp() {
	if len(l.seen) == 0 {
		return
	}
	signatures := func(n int) string { return wording.Plural(n, "call signature") }
	var parts []string
	if p := l.engine.Policy; p != nil {
		parts = append(parts, fmt.Sprintf("%d of %s decided", len(l.rows), wording.Plural(len(p.Rules), "row")))
	}
	if l.engine.Model != nil {
		parts = append(parts, fmt.Sprintf("the model %s", signatures(l.model)))
	}
	l.log.Infof("%s in all, asked for %s: %s, NCCL %s", signatures(len(l.seen)), wording.Plural(l.asked, "time"),
		strings.Join(parts, ", "), signatures(l.nccl))
	for i, r := range slices.Sorted(maps.Keys(l.rows)) {
		if i == maxRowsSummed {
			l.log.Infof("... and %d more rows", len(l.rows)-i)
			return
		}
		l.log.Infof("%s decided %s", l.engine.Policy.Place(r), signatures(l.rows[r]))
	}
}
