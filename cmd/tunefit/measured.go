package main

// NCCL's own choice is what it was measured to do, and only where nobody measured it what
// a cost model of NCCL's says.

import (
	"context"
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// knowledge is how it is known what NCCL does by itself.
type knowledge int8

const (
	estimated knowledge = iota
	timed               // the time was measured; what took it was not written down and is estimated
	measured
)

func (k knowledge) String() string {
	return [...]string{"cost model", "cost model, time measured", "measurement"}[k]
}

// alone fills in what no tuner has a share in: what NCCL does by itself, and the table
// that it hands to one. plain are its costs, costs those with the constants that the
// tuner replaces.
func (a *asker) alone(q question, view *policy.EngineView, plain, costs *tuning.Tuning) outcome {
	o := outcome{question: q, table: a.table(costs, q, noCell), costModel: a.costs.source()}
	before, after := choose(plain, a.table(plain, q, noCell), q.bytes), choose(costs, o.table, q.bytes)
	o.nccl, o.own = cellOf(before), cellOf(after)
	o.ncclMicros, o.ncclChannels = before.Micros, before.Channels
	replaced := o.nccl != o.own // by constants with which nobody measured
	if own, ok := measurement(view, q); ok {
		chosen := cell{own.Algo, own.Proto}
		switch {
		case chosen == noCell:
			o.known = timed
		case cellOf(choose(plain, a.table(plain, q, chosen), q.bytes)) == chosen:
			o.known, o.nccl, o.costModel = measured, chosen, ""
			if !replaced {
				o.own, o.table = chosen, a.table(costs, q, chosen)
			}
		}
		if o.known != estimated {
			o.ncclMicros, o.ncclChannels = float32(own.Micros()), own.Channels
		}
	}
	if o.known != measured || replaced {
		a.estimates = a.estimates || a.offers == nil || a.offers.micros == nil
	}
	return o
}

// measurement is what NCCL was measured to do with a call by itself. Benchmarks make one
// call at a time from buffers that are not registered; of others they tell nothing.
func measurement(view *policy.EngineView, q question) (own model.OwnChoice, ok bool) {
	if q.pipeOps > 1 || q.regBuff == 1 {
		return own, false
	}
	return view.Own(q.coll, q.bytes)
}

// table is what NCCL's cost model says of a question, flat, and changed so that NCCL
// chooses a cell, if one is given.
func (a *asker) table(costs *tuning.Tuning, q question, chosen cell) (flat []float32) {
	table := costs.Table(q.coll, int64(q.bytes), q.pipeOps)
	for _, row := range table {
		flat = append(flat, row[:]...)
	}
	if chosen != noCell {
		flat = q.query(flat, nccl.NewestABI).Costs.Choosing(chosen.algo, chosen.proto).Micros
	}
	if a.offers != nil {
		a.offers.limit(flat)
	}
	return flat
}

// note says what is to be known of NCCL's own choices, as they are shown.
func (a *asker) note(w io.Writer, shown []shape) {
	a.costs.noteStandIns(w, shown)
	a.costs.noteIgnored(w)
	a.noteEstimates(w)
}

// noteEstimates names the cost model, where its estimates stand in for measurements, and
// warns where it is not known to be that of the user's machine.
func (a *asker) noteEstimates(w io.Writer) {
	if !a.estimates {
		return
	}
	where := ""
	if a.engine.Model != nil {
		where = ", where it was not measured,"
	}
	doubt := a.from.doubt()
	if doubt != "" {
		doubt += " (--topo FILE names yours, --model FILE what was measured on it)"
	}
	fmt.Fprintf(w, "note: what NCCL chooses alone%s is by %s%s\n", where, a.costs.source(), doubt)
}

// doubt says why the costs may not be those of the user's machine; empty where the user
// has named it, or this is it.
func (f *costFlags) doubt() string {
	if f.topo != "" || f.tuning != "" {
		return ""
	}
	m := findMachine(context.Background(), tuner.FindMachine, f.getenv)
	if m.err != nil {
		return "; nothing here tells whether your machine is one"
	}
	doc, err := hgxH100()
	if err == nil {
		var sys *topo.System
		if sys, err = topo.Build(doc, buildOptions()); err == nil && sys.Fingerprint().SameMachine(m.here.Fingerprint) {
			return ""
		}
	}
	return fmt.Sprintf("; this machine is none (%s)", m.here.Summary)
}
