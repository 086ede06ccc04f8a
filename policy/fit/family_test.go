package fit

import (
	"math"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// How far a configuration is predicted from what was measured of its family, and
// that the prediction is worth something there.
func TestDomain(t *testing.T) {
	m := smallMachine()
	g := pooled(m.sweep(1, 9)).Groups[0]
	family := FamilyKey{nccl.AlgoRing, nccl.ProtoSimple}
	const first, last = 4 << 10, 256 << 20
	for _, test := range []struct {
		name           string
		keep           func(Cell) bool
		channels       int
		known, unknown []uint64
	}{
		{"smaller sizes take no longer", func(c Cell) bool { return c.Bytes >= 1<<20 }, 8,
			[]uint64{first, 64 << 10, 1 << 20}, nil},
		{"somewhat larger sizes", func(c Cell) bool { return c.Bytes <= 32<<20 }, 8,
			[]uint64{64 << 20, 128 << 20}, []uint64{last}},
		{"one channel count", func(c Cell) bool { return c.Config.Channels == 8 && 64<<10 <= c.Bytes && c.Bytes <= 64<<20 }, 8,
			[]uint64{first, 128 << 20, last}, nil},
		{"one channel count at few sizes", func(c Cell) bool { return c.Config.Channels == 8 && 1<<20 <= c.Bytes && c.Bytes <= 16<<20 }, 8,
			[]uint64{1 << 20, 16 << 20}, []uint64{512 << 10, 32 << 20}},
		// With 16 channels and more, 256 MiB are 16 MiB for a channel.
		{"bytes per channel", func(c Cell) bool { return c.Config.Channels >= 16 || c.Config.Channels == 1 && c.Bytes <= 1<<20 }, 1,
			[]uint64{first, 1 << 20}, []uint64{128 << 20, last}},
	} {
		part := g.subset(func(c Cell) bool { return c.Config.FamilyKey != family || test.keep(c) }, func(Cell) bool { return true })
		model := compile(0, part)
		view := model.For(m.Nodes, m.Ranks)
		config := Config{family, test.channels}
		for _, b := range test.known {
			ln, sigma, ok := view.Predict(m.Coll, family.Algo, family.Proto, test.channels, b)
			off := math.Abs(ln - math.Log(m.micros(config, b)))
			if !ok || !(off < max(0.02, quantile95*sigma)) || off > 0.5 {
				t.Errorf("%s: %s at %s is predicted %.1f us, sigma %.3f (%v), takes %.1f", test.name, config, nccl.FormatBytes(b), math.Exp(ln), sigma, ok, m.micros(config, b))
			}
		}
		for _, b := range test.unknown {
			if ln, sigma, ok := view.Predict(m.Coll, family.Algo, family.Proto, test.channels, b); ok {
				t.Errorf("%s: %s at %s is predicted %.1f us, sigma %.3f, want nothing", test.name, config, nccl.FormatBytes(b), math.Exp(ln), sigma)
			}
		}
	}
}
