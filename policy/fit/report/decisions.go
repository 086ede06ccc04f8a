package report

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// decision is what the policy does at one measured size. Times are in us; NaN: not known.
type decision struct {
	bytes  uint64
	winner *nccl.Config // the fastest measured; nil: NCCL's choice was
	best   float64      // of the fastest measured, NCCL's choice among them
	byNCCL float64      // of the default
	choice *nccl.Config // what the default was; nil: not known

	row *nccl.Config // what the policy asks for; nil: it leaves the size to NCCL
	us  float64      // of row, as measured, else as predicted
	why string       // there is no row
	// unproven: the fastest measured did not win the verification, so NCCL's choice may be as fast.
	unproven bool
	gain     float64 // of row over the default, as a share of its time
	reach    float64 // of the fastest measured, the same; NaN, too, where nothing but the default was measured

	// saved is gain and toSave is reach, both without the luck that a winner had in being measured: genuine is the
	// share that is left. Losses are taken as they are.
	saved, toSave, genuine float64
	predicted              bool // us is
}

const (
	notWorthARow = "the gain is not worth a row of its own"
	timesMoved   = "the gain does not exceed run-to-run variation"
)

// newDecisions goes through all sizes measured, ascending.
func newDecisions(r *fit.GroupReport, m *model.Model, rows []fit.Row) []decision {
	g := r.Group
	view := m.For(g.Comm)
	sizes := g.AllSizes()
	all := make([]decision, len(sizes))
	for i, b := range sizes {
		all[i] = decision{bytes: b, best: math.Inf(1), byNCCL: math.NaN(), us: math.NaN()}
		asks := func(row fit.Row) bool { return row.Key == g.Key && row.Bytes.Contains(b) }
		if k := slices.IndexFunc(rows, asks); k >= 0 {
			all[i].row = &rows[k].Config
		}
	}
	at := func(bytes uint64) *decision {
		i, _ := slices.BinarySearch(sizes, bytes)
		return &all[i]
	}
	for i := range g.Points {
		c := &g.Points[i]
		d := at(c.Bytes)
		if c.Micros < d.best {
			d.winner, d.best = &c.Config, c.Micros
		}
		if d.row != nil && *d.row == c.Config {
			d.us = c.Micros
		}
	}
	for i := range g.Default {
		c := &g.Default[i]
		d := at(c.Bytes)
		if len(r.Genuine) > 0 {
			d.genuine = r.Genuine[i]
		}
		if d.byNCCL = c.Micros; c.Config.Known() {
			d.choice = &c.Config
		}
	}
	for i := range all {
		all[i].judge(view, nccl.Call{Coll: g.Coll, Bytes: sizes[i]})
	}
	for _, u := range g.Unproven() {
		d := at(u.Bytes)
		if d.unproven = d.row == nil; d.unproven && u.Seems() {
			d.why = timesMoved
		}
	}
	return all
}

// judge compares what the policy does with the default and the fastest measured.
func (d *decision) judge(view *model.View, call nccl.Call) {
	switch d.reach = 1 - d.best/d.byNCCL; {
	case d.winner == nil:
		d.best, d.reach = d.byNCCL, math.NaN()
	case d.best >= d.byNCCL || d.choice != nil && d.winner.Admits(*d.choice):
		d.winner, d.best, d.reach = nil, d.byNCCL, 0
	}
	d.toSave = d.reach * d.genuine
	if d.row == nil {
		d.why = notWorthARow
		if _, why := view.Choose(call, nccl.Everything()); why != model.Decides {
			d.why = why.String()
		}
	} else if math.IsNaN(d.us) {
		t := view.Predict(call, *d.row)
		d.us, d.predicted = t.Micros(), !t.Unknown()
	}
	d.gain = 1 - d.us/d.byNCCL
	if d.saved = d.gain; d.saved > 0 {
		d.saved *= d.genuine
	}
}
