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
	baselineLinear  = "a + b*bytes"
)

var baselines = map[string]func(*Group, uint64) (Config, bool){
	baselineLogLog:  logLogChoice,
	baselineNearest: nearestChoice,
	baselineRows:    argMinChoice,
	baselineLinear:  linearChoice,
}

// leastOf returns the configuration with the least predicted value.
func leastOf(g *Group, predict func(cells []Cell) (float64, bool)) (Config, bool) {
	var best Config
	least, found := math.Inf(1), false
	for i := 0; i < len(g.Cells); {
		j := i
		for j < len(g.Cells) && g.Cells[j].Config == g.Cells[i].Config {
			j++
		}
		if v, ok := predict(g.Cells[i:j]); ok && v < least {
			best, least, found = g.Cells[i].Config, v, true
		}
		i = j
	}
	return best, found
}

// logLogChoice interpolates each configuration between its own measured sizes.
func logLogChoice(g *Group, bytes uint64) (Config, bool) {
	return leastOf(g, func(cells []Cell) (float64, bool) {
		if bytes < cells[0].Bytes || bytes > cells[len(cells)-1].Bytes {
			return 0, false
		}
		var p polyline
		for _, c := range cells {
			p.octaves, p.values = append(p.octaves, log2(c.Bytes)), append(p.values, math.Log(c.Micros))
		}
		v, _ := p.at(log2(bytes))
		return v, true
	})
}

// linearChoice fits latency and bandwidth to each configuration, by least squares
// of relative errors.
func linearChoice(g *Group, bytes uint64) (Config, bool) {
	return leastOf(g, func(cells []Cell) (float64, bool) {
		var w, ws, wss, wt, wst float64
		for _, c := range cells {
			s, k := float64(c.Bytes), 1/(c.Micros*c.Micros)
			w, ws, wss, wt, wst = w+k, ws+k*s, wss+k*s*s, wt+k*c.Micros, wst+k*s*c.Micros
		}
		det := w*wss - ws*ws
		if len(cells) < 2 || det <= 0 {
			return 0, false
		}
		b := (w*wst - ws*wt) / det
		a := (wt - b*ws) / w
		return a + b*float64(bytes), true
	})
}

// winnerAt is the fastest configuration measured at a size.
func winnerAt(g *Group, bytes uint64) (Config, bool) {
	return leastOf(g, func(cells []Cell) (float64, bool) {
		for _, c := range cells {
			if c.Bytes == bytes {
				return c.Micros, true
			}
		}
		return 0, false
	})
}

// nearestChoice is the winner at the measured size with the nearest logarithm,
// the larger of two.
func nearestChoice(g *Group, bytes uint64) (Config, bool) {
	sizes := g.Sizes()
	if len(sizes) == 0 {
		return Config{}, false
	}
	i, _ := slices.BinarySearch(sizes, bytes)
	if i == len(sizes) || i > 0 && float64(bytes)/float64(sizes[i-1]) < float64(sizes[i])/float64(bytes) {
		i--
	}
	return winnerAt(g, sizes[i])
}

// argMinChoice is what NCCL's optimize_config.py makes of a sweep: the winner at
// each measured size, for a range that ends half way, in bytes, to the next.
func argMinChoice(g *Group, bytes uint64) (Config, bool) {
	sizes := g.Sizes()
	if len(sizes) == 0 {
		return Config{}, false
	}
	i := 0
	for i+1 < len(sizes) && bytes > sizes[i]+(sizes[i+1]-sizes[i])/2 {
		i++
	}
	return winnerAt(g, sizes[i])
}

// baselineTimes is what the choices of a baseline take.
func baselineTimes(choose func(*Group, uint64) (Config, bool), train, truth *Group, sizes []uint64) []float64 {
	micros := make([]float64, len(sizes))
	for i, b := range sizes {
		micros[i] = math.NaN()
		if config, ok := choose(train, b); ok {
			if c, ok := truth.at(config, b); ok {
				micros[i] = c.Micros
			}
		}
	}
	return micros
}
