package ask

// NCCL's own choice is what it was measured to do, and only where nobody measured it what
// a cost model of NCCL's says.

import (
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// knowledge is how it is known what NCCL does by itself.
type knowledge int8

const (
	estimated knowledge = iota
	Timed               // the time was measured; what took it was not written down and is estimated
	Measured
)

func (k knowledge) String() string {
	return [...]string{"cost model", "cost model, time measured", "measurement"}[k]
}

// alone fills in what no tuner has a share in: what NCCL does by itself, and the table
// that it hands to one.
func (a *Asker) alone(q Question, view *policy.EngineView, costs *tuning.Tuning) Outcome {
	o := Outcome{Question: q, table: a.table(costs, q, nccl.NoCell), costModel: a.Costs.Source()}
	own := choose(costs, o.table, q.Bytes)
	o.NCCL, o.NCCLMicros, o.NCCLChannels = cellOf(own), own.Micros, own.Channels
	if own, ok := measurement(view, q); ok {
		chosen := own.Cell
		switch {
		case chosen == nccl.NoCell:
			o.Known = Timed
		case cellOf(choose(costs, a.table(costs, q, chosen), q.Bytes)) == chosen:
			o.Known, o.NCCL, o.costModel = Measured, chosen, ""
			o.table = a.table(costs, q, chosen)
		}
		if o.Known != estimated {
			o.NCCLMicros, o.NCCLChannels = float32(own.Micros()), own.Channels
		}
	}
	if o.Known != Measured {
		a.estimates = a.estimates || a.Offers == nil || a.Offers.Micros == nil
	}
	return o
}

// measurement is what NCCL was measured to do with a call by itself. Benchmarks make one
// call at a time from buffers that are not registered; of others they tell nothing.
func measurement(view *policy.EngineView, q Question) (own model.Choice, ok bool) {
	if q.PipeOps > 1 || q.RegBuff == 1 {
		return own, false
	}
	return view.Own(q.Call)
}

// table is what NCCL's cost model says of a question, flat, and changed so that NCCL
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

// Note says what is to be known of NCCL's own choices, as they are shown.
func (a *Asker) Note(w io.Writer, shown []commspec.Shape) {
	a.Costs.NoteStandIns(w, shown)
	a.noteEstimates(w)
}

// noteEstimates names the cost model, where its estimates stand in for measurements, and
// warns where it is not known to be that of the user's machine.
func (a *Asker) noteEstimates(w io.Writer) {
	if !a.estimates {
		return
	}
	where := ""
	if a.modelled {
		where = ", where it was not measured,"
	}
	doubt := a.from.Doubt()
	if doubt != "" {
		doubt += " (--topo FILE names yours, --model FILE what was measured on it)"
	}
	fmt.Fprintf(w, "note: what NCCL chooses alone%s is by %s%s\n", where, a.Costs.Source(), doubt)
}
