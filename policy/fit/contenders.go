package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// contendersPerSize are verified at each size, beside the default.
const contendersPerSize = 3

// contendersDoubt: so many sigmas are taken off what a configuration is expected to take. Of two that look
// alike the less known one is worth more of a look.
const contendersDoubt = 0.5

// Contenders are the configurations that are expected to be the fastest, at each size the best
// first, measured there or not. They are what is worth measuring once more before it is
// deployed.
func (s Space) Contenders(g *Group) map[uint64][]Config {
	type rival struct {
		config Config
		ln     float64
	}
	rivals := map[uint64][]rival{}
	var shared layouts
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
				if domain.Contains(b) {
					rivals[b] = append(rivals[b], rival{c, means[i] - contendersDoubt*sigmas[i]})
				}
			}
		}
		for _, n := range f.channels {
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
	for b, list := range rivals {
		slices.SortStableFunc(list, func(a, b rival) int { return cmp.Or(cmp.Compare(a.ln, b.ln), a.config.compare(b.config)) })
		for _, r := range list[:min(len(list), contendersPerSize)] {
			if !math.IsNaN(r.ln) {
				all[b] = append(all[b], r.config)
			}
		}
	}
	return all
}
