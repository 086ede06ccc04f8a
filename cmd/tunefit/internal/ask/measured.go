package ask

// NCCL's choice is what it was measured to do. Where nobody measured it, NCCL's estimates tell it.

import (
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// knowledge is how NCCL's choice is known.
type knowledge string

const (
	estimated knowledge = "cost model"
	// Timed is a time that was measured; what took it was not written down and is estimated.
	Timed    knowledge = "cost model, time measured"
	Measured knowledge = "measurement"
)

// withoutTuner fills in what no tuner has a share in: NCCL's choice, and the table that it hands to a tuner.
func (a *Asker) withoutTuner(q Question, view *policy.EngineView, costs *tuning.Tuning) Outcome {
	o := Outcome{Question: q, Known: estimated, table: a.table(costs, q, nccl.NoCell), CostModel: a.Costs.Source()}
	estimate := choose(costs, o.table, q.Bytes)
	o.NCCL, o.NCCLMicros = estimate.Config, estimate.Micros
	if own, ok := measurement(view, q); ok {
		switch {
		case own.Cell == nccl.NoCell:
			o.Known, o.NCCL.Channels = Timed, own.Channels
		case choose(costs, a.table(costs, q, own.Cell), q.Bytes).Cell == own.Cell:
			o.Known, o.NCCL, o.CostModel = Measured, own.Config, ""
			o.table = a.table(costs, q, own.Cell)
		}
		if o.Known != estimated {
			o.NCCLMicros = float32(own.Micros())
		}
	}
	if o.Known != Measured {
		a.estimates = a.estimates || a.Offers == nil || len(a.Offers.Micros) == 0
	}
	return o
}

// measurement is what NCCL was measured to do with a call without a tuner. Benchmarks make one call at a time from
// buffers that are not registered; of others they tell nothing.
func measurement(view *policy.EngineView, q Question) (own model.Choice, ok bool) {
	if q.PipeOps > 1 || q.RegBuff == 1 {
		return own, false
	}
	return view.Own(q.Call)
}

// table is what NCCL's estimates say of a question, flat, and changed so that NCCL
// chooses a cell, if one is given.
func (a *Asker) table(costs *tuning.Tuning, q Question, chosen nccl.Cell) (flat []float32) {
	table := costs.Table(q.Coll, int64(q.Bytes), q.PipeOps)
	flat = table.Costs().Micros
	if chosen != nccl.NoCell {
		flat = q.query(flat, nccl.NewestABI).Costs.Choosing(chosen).Micros
	}
	if a.Offers != nil {
		a.Offers.limit(flat)
	}
	return flat
}

// Note says what a person should know of NCCL's choices on the communicators shown. Where NCCL's estimates stand in for
// measurements it names them, and warns if they may not be those of the user's machine.
func (a *Asker) Note(w io.Writer, shown []policy.Comm) {
	cli.Notes(w, a.Costs.Notes...)
	for _, c := range shown {
		a.Costs.NoteStandIn(w, c.Comm)
	}
	if !a.estimates {
		return
	}
	where := ""
	if a.Files.model != nil {
		where = ", where it was not measured,"
	}
	doubt := a.from.Doubt()
	if doubt != "" {
		doubt += " (--topo FILE names yours, --model FILE what was measured on it)"
	}
	fmt.Fprintf(w, "note: NCCL's choice%s is taken from %s%s\n", where, a.Costs.Source(), doubt)
}
