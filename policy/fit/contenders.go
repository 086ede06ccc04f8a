package fit

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

const (
	// fewContenders are verified at each size, beside the default.
	fewContenders = 3
	// MostContenders are, where more of them promise as much as a run of a sweep has to.
	MostContenders = 5
)

// rival is what is expected of a configuration at a size.
type rival struct {
	config    Config
	ln, sigma float64
}

// Contenders are the configurations worth measuring once more before one of them is deployed, at
// each size the one expected to be the fastest first, measured there or not. Each of the others is
// the one that promises most over all those before it.
func (s Space) Contenders(g *Group) map[uint64][]Config {
	rivals := map[uint64][]rival{}
	var shared layouts
	raised := s.raised(g)
	for _, cells := range g.families() {
		key := cells[0].Config
		if !slices.Contains(s.Families, key.FamilyKey) {
			continue
		}
		f := g.fitFamily(cells, &shared)
		add := func(c Config, p predictor, domain nccl.Range) {
			if s.failed(c) {
				return
			}
			means, sigmas := p.predict(c.Channels, s.Sizes)
			for i, b := range s.Sizes {
				if domain.Contains(b) && !raised(c, b) {
					rivals[b] = append(rivals[b], rival{c, means[i], sigmas[i]})
				}
			}
		}
		limit, limited := s.Limits[key.Algo]
		for _, n := range f.channels {
			if limited && n > limit {
				continue
			}
			add(Config{key.FamilyKey, n}, f, f.domain(n))
		}
		if len(cells) < fewPoints || key.Channels == 0 {
			continue
		}
		between := g.fitJoint(cells, &shared)
		for _, n := range s.channels(key.Algo) {
			if !slices.Contains(f.channels, n) && f.channels[0] < n && n < f.channels[len(f.channels)-1] {
				add(Config{key.FamilyKey, n}, between, nccl.Range{Min: 1, Max: f.most})
			}
		}
	}
	all := map[uint64][]Config{}
	promised := map[uint64][]float64{}
	for b, list := range rivals {
		all[b], promised[b] = contenders(list)
	}
	for k := fewContenders; k < MostContenders; k++ {
		sum := 0.0
		for _, p := range promised {
			if k < len(p) && p[k] >= hopeful {
				sum += p[k]
			}
		}
		for b, p := range promised {
			if k < len(p) && (p[k] < hopeful || sum < worthwhile*float64(len(s.Sizes))) {
				all[b], promised[b] = all[b][:k], p[:k]
			}
		}
	}
	return all
}

// contenders chooses first what is expected to be the fastest, then what improves most on all that was chosen,
// as if what each may be wrong by were independent. promises are these improvements, in ln(us).
func contenders(rivals []rival) (chosen []Config, promises []float64) {
	left := slices.Clone(rivals)
	promise := slices.Repeat([]float64{math.Inf(1)}, len(left))
	next := 0
	for i, r := range left {
		if r.ln < left[next].ln {
			next = i
		}
	}
	for len(left) > 0 && len(chosen) < MostContenders {
		last := left[next]
		chosen, promises = append(chosen, last.config), append(promises, promise[next])
		left, promise = slices.Delete(left, next, next+1), slices.Delete(promise, next, next+1)
		next = 0
		for i, r := range left {
			promise[i] = min(promise[i], expectedImprovement(last.ln-r.ln, math.Hypot(last.sigma, r.sigma)))
			if promise[i] > promise[next] {
				next = i
			}
		}
	}
	return chosen, promises
}
