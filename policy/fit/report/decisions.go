package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// decision is what the policy does at one measured size.
type decision struct {
	bytes  uint64
	winner *fit.Config // the fastest measured; nil: only the default was
	best   float64     // us of the winner; NaN without
	byNCCL float64     // us of the default; NaN: not measured
	label  string      // what the default was; empty: not known

	row   *fit.Config // what the policy asks for; nil: it leaves the size to NCCL
	us    float64     // of row, as measured, else as predicted; NaN without
	why   string      // no row; see explain
	gain  float64     // of row over the default, as a share of its time; NaN: not known
	reach float64     // of winner, the same

	// saved is gain and toSave is reach, 0 at least, both without the luck that a winner
	// had in being measured. Losses are taken as they are.
	saved, toSave float64
	predicted     bool // us is
}

// newDecisions goes through all sizes measured with anything, ascending. rows are
// the group's own.
func newDecisions(r *fit.GroupReport, m *model.Model, rows []fit.Row) []decision {
	g := r.Group
	view := m.For(g.Nodes, g.Ranks)
	at := map[uint64]*decision{}
	place := func(bytes uint64) *decision {
		d := at[bytes]
		if d == nil {
			d = &decision{bytes: bytes, best: math.NaN(), byNCCL: math.NaN(), us: math.NaN(), gain: math.NaN(), reach: math.NaN(), saved: math.NaN(), toSave: math.NaN()}
			at[bytes] = d
		}
		return d
	}
	asked := map[uint64]*fit.Config{}
	sizes := g.Sizes()
	for i := range rows {
		for _, b := range sizes {
			if rows[i].Bytes.Min <= b && b <= rows[i].Bytes.Max && asked[b] == nil {
				asked[b] = &rows[i].Config
			}
		}
	}
	for i := range g.Cells {
		c := &g.Cells[i]
		d := place(c.Bytes)
		if d.winner == nil || c.Micros < d.best {
			d.winner, d.best = &c.Config, c.Micros
		}
		if row := asked[c.Bytes]; row != nil && *row == c.Config {
			d.us = c.Micros
		}
	}
	genuine := map[uint64]float64{}
	for i, c := range g.Default {
		d := place(c.Bytes)
		if len(r.Genuine) > 0 {
			genuine[c.Bytes] = r.Genuine[i]
		}
		if d.byNCCL = c.Micros; c.Config.Algo >= 0 {
			d.label = c.Config.String()
		}
	}
	var all []decision
	for b, d := range at {
		d.reach = 1 - d.best/d.byNCCL
		d.toSave = max(0, d.reach) * genuine[b]
		if d.row = asked[b]; d.row != nil {
			if math.IsNaN(d.us) {
				if ln, _, ok := view.Predict(g.Coll, d.row.Algo, d.row.Proto, d.row.Channels, b); ok {
					d.us, d.predicted = math.Exp(ln), true
				}
			}
			d.gain = 1 - d.us/d.byNCCL
			if d.saved = d.gain; d.saved > 0 {
				d.saved *= genuine[b]
			}
		}
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b decision) int { return cmp.Compare(a.bytes, b.bytes) })
	return all
}

const notWorthARow = "the gain is not worth a row of its own"

// explain asks the model why sizes have no row.
func explain(decisions []decision, k fit.Key, m *model.Model) {
	view := m.For(k.Nodes, k.Ranks)
	for i := range decisions {
		d := &decisions[i]
		if d.row != nil {
			continue
		}
		d.why = notWorthARow
		if _, why := view.Choose(k.Coll, d.bytes, nccl.Everything()); why != model.Decides {
			d.why = why.String()
		}
	}
}
