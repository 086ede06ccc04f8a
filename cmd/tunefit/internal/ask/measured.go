package ask

// NCCL's choice is the measured one, if the model has it, else the one that NCCL's estimates give.

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
	// Timed says that the time was measured, while the configuration is not known and estimated.
	Timed    knowledge = "cost model, time measured"
	Measured knowledge = "measurement"
)

// withoutTuner fills in NCCL's choice, and the table that NCCL gives to a tuner.
func (a *Asker) withoutTuner(q Question, view *policy.EngineView, costs *tuning.Tuning) Outcome {
	o := Outcome{Question: q, Known: estimated, table: a.table(costs, q, nccl.NoCell), CostModel: a.Costs.Source()}
	estimate := choose(costs, o.table, q.Bytes)
	o.NCCL = estimate.Config
	if estimate.Micros >= 0 && estimate.Micros < nccl.TunerOnly {
		o.NCCLMicros = estimate.Micros
	}
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

// measurement is the measured choice of NCCL for a call. Benchmarks make one call at a time from buffers that are not
// registered, so there is none for other calls.
func measurement(view *policy.EngineView, q Question) (own model.Choice, ok bool) {
	if q.PipeOps > 1 || q.RegBuff == 1 {
		return own, false
	}
	return view.NCCLChoice(q.Call)
}

// table is NCCL's cost table for a question, flat. If chosen is a cell, the table is changed so that NCCL chooses it.
func (a *Asker) table(costs *tuning.Tuning, q Question, chosen nccl.Cell) (flat []float32) {
	table := a.Costs.Table(q.Comm.Comm, costs, q.Call, q.PipeOps)
	flat = table.Costs().Micros
	if chosen != nccl.NoCell {
		flat = q.query(flat, nccl.NewestABI).Costs.Choosing(chosen).Micros
	}
	if a.Offers != nil {
		a.Offers.limit(flat)
	}
	return flat
}

// Note prints what a person should know about NCCL's choice on the communicators shown. It names NCCL's estimates, if
// they were needed, and warns if they may not fit the user's machine.
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
