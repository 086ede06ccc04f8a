package report

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// decision is what the policy does at one measured size. Times are in us; NaN: not known.
type decision struct {
	bytes  uint64
	winner *nccl.Config // the fastest measured; nil: NCCL's own choice was
	best   float64      // of the fastest measured, NCCL's own choice among them
	byNCCL float64      // of the default
	own    *nccl.Config // what the default was; nil: not known

	row   *nccl.Config // what the policy asks for; nil: it leaves the size to NCCL
	us    float64      // of row, as measured, else as predicted
	why   string       // there is no row
	gain  float64      // of row over the default, as a share of its time
	reach float64      // of the fastest measured, the same; NaN, too, where nothing but the default was measured

	// saved is gain and toSave is reach, both without the luck that a winner had in being measured. Losses are
	// taken as they are.
	saved, toSave float64
	predicted     bool // us is
}

const notWorthARow = "the gain is not worth a row of its own"

// newDecisions goes through all sizes measured, ascending.
func newDecisions(r *fit.GroupReport, m *model.Model, rows []fit.Row) []decision {
	g := r.Group
	view := m.For(g.Comm)
	at := map[uint64]*decision{}
	place := func(bytes uint64) *decision {
		d := at[bytes]
		if d == nil {
			d = &decision{bytes: bytes, best: math.Inf(1), byNCCL: math.NaN(), us: math.NaN()}
			asks := func(row fit.Row) bool { return row.Key == g.Key && row.Bytes.Contains(bytes) }
			if i := slices.IndexFunc(rows, asks); i >= 0 {
				d.row = &rows[i].Config
			}
			at[bytes] = d
		}
		return d
	}
	for i := range g.Cells {
		c := &g.Cells[i]
		d := place(c.Bytes)
		if c.Micros < d.best {
			d.winner, d.best = &c.Config, c.Micros
		}
		if d.row != nil && *d.row == c.Config {
			d.us = c.Micros
		}
	}
	genuine := map[uint64]float64{}
	for i := range g.Default {
		c := &g.Default[i]
		d := place(c.Bytes)
		if len(r.Genuine) > 0 {
			genuine[c.Bytes] = r.Genuine[i]
		}
		if d.byNCCL = c.Micros; c.Config.Algo >= 0 {
			d.own = &c.Config
		}
	}
	for b, d := range at {
		switch d.reach = 1 - d.best/d.byNCCL; {
		case d.winner == nil:
			d.best, d.reach = d.byNCCL, math.NaN()
		case d.best >= d.byNCCL || d.repeatsOwn():
			d.winner, d.best, d.reach = nil, d.byNCCL, 0
		}
		d.toSave = d.reach * genuine[b]
		if d.row != nil && math.IsNaN(d.us) {
			t := view.Predict(nccl.Call{Coll: g.Coll, Bytes: b}, *d.row)
			d.us, d.predicted = t.Micros(), !t.Unknown()
		}
		d.gain = 1 - d.us/d.byNCCL
		if d.saved = d.gain; d.saved > 0 {
			d.saved *= genuine[b]
		}
		if d.row == nil {
			d.why = notWorthARow
			if _, why := view.Choose(nccl.Call{Coll: g.Coll, Bytes: b}, nccl.Everything()); why != model.Decides {
				d.why = why.String()
			}
		}
	}
	bySize := func(a, b *decision) int { return cmp.Compare(a.bytes, b.bytes) }
	var all []decision
	for _, d := range slices.SortedFunc(maps.Values(at), bySize) {
		all = append(all, *d)
	}
	return all
}

// repeatsOwn reports that the winner is what NCCL chose by itself. NCCL's own channel count, 0, is whatever that had.
func (d *decision) repeatsOwn() bool {
	return d.own != nil && d.winner.Cell == d.own.Cell && (d.winner.Channels == 0 || *d.winner == *d.own)
}
