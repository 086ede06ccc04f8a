package fit

import (
	"math"
	"slices"
)

// Simpler ways to decide. A model that does not beat them on data that none has
// seen is not worth its file.
const (
	baselineLogLog  = "log-log"
	baselineNearest = "nearest"
	baselineRows    = "arg-min"
)

// chooser decides for a size; ok is false where it cannot.
type chooser func(bytes uint64) (c Config, ok bool)

// baselines learn from a group.
var baselines = map[string]func(*Group) chooser{
	baselineLogLog:  logLogChoice,
	baselineNearest: nearestChoice,
	baselineRows:    argMinChoice,
}

// leastOf learns a curve for each configuration and chooses the one with the
// least value; NaN says that there is none.
func leastOf(g *Group, learn func(cells []Cell) func(bytes uint64) float64) chooser {
	var configs []Config
	var curves []func(uint64) float64
	for i := 0; i < len(g.Cells); {
		j := i
		for j < len(g.Cells) && g.Cells[j].Config == g.Cells[i].Config {
			j++
		}
		configs, curves = append(configs, g.Cells[i].Config), append(curves, learn(g.Cells[i:j]))
		i = j
	}
	return func(bytes uint64) (best Config, found bool) {
		least := math.Inf(1)
		for i, curve := range curves {
			if v := curve(bytes); v < least {
				best, least, found = configs[i], v, true
			}
		}
		return best, found
	}
}

// logLogChoice interpolates each configuration between its own measured sizes.
func logLogChoice(g *Group) chooser {
	return leastOf(g, func(cells []Cell) func(uint64) float64 {
		line := newPolyline(cells)
		return func(bytes uint64) float64 {
			if bytes < cells[0].Bytes || bytes > cells[len(cells)-1].Bytes {
				return math.NaN()
			}
			v, _ := line.at(log2(bytes))
			return v
		}
	})
}

func newPolyline(cells []Cell) *polyline {
	p := &polyline{}
	for _, c := range cells {
		p.add(c, 0)
	}
	return p
}

// winners are the sizes measured, ascending, and the fastest configuration at
// each; of equals the first.
func (g *Group) winners() (sizes []uint64, fastest []Cell) {
	best := map[uint64]Cell{}
	for _, c := range g.Cells {
		if b, ok := best[c.Bytes]; !ok || c.Micros < b.Micros {
			best[c.Bytes] = c
		}
	}
	for b := range best {
		sizes = append(sizes, b)
	}
	slices.Sort(sizes)
	for _, b := range sizes {
		fastest = append(fastest, best[b])
	}
	return sizes, fastest
}

// nearestChoice is the winner at the measured size with the nearest logarithm,
// the larger of two.
func nearestChoice(g *Group) chooser {
	return winnerChoice(g, func(bytes, below, above uint64) bool {
		return float64(bytes)/float64(below) < float64(above)/float64(bytes)
	})
}

// argMinChoice is what NCCL's optimize_config.py makes of a sweep: the winner at
// each measured size, for a range that ends half way, in bytes, to the next.
func argMinChoice(g *Group) chooser {
	return winnerChoice(g, func(bytes, below, above uint64) bool { return bytes <= below+(above-below)/2 })
}

// winnerChoice takes the winner at the size below or above, as isBelow tells.
func winnerChoice(g *Group, isBelow func(bytes, below, above uint64) bool) chooser {
	sizes, fastest := g.winners()
	return func(bytes uint64) (Config, bool) {
		if len(sizes) == 0 {
			return Config{}, false
		}
		i, exact := slices.BinarySearch(sizes, bytes)
		if i == len(sizes) || !exact && i > 0 && isBelow(bytes, sizes[i-1], sizes[i]) {
			i--
		}
		return fastest[i].Config, true
	}
}

// times are what the choices take in truth; NaN where that was not measured.
func (choose chooser) times(truth *Group, sizes []uint64) []float64 {
	micros := make([]float64, len(sizes))
	for i, b := range sizes {
		micros[i] = math.NaN()
		if config, ok := choose(b); ok {
			if c, ok := truth.at(config, b); ok {
				micros[i] = c.Micros
			}
		}
	}
	return micros
}
