package fit

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// verify replaces cells by those that were measured once more to verify them. The times that a
// configuration was selected by flatter it: among many alike, the one that noise favoured wins.
func (g *Group) verify(fresh []Cell) {
	if len(fresh) > 0 {
		g.Cells = append(fresh, g.Cells...)
		slices.SortStableFunc(g.Cells, Cell.compare)
		g.Cells = slices.CompactFunc(g.Cells, func(a, b Cell) bool { return a.compare(b) == 0 })
	}
}

// verdicts are what won at each size at which the default and others were verified.
func (g *Group) verdicts() (all []model.Verified) {
	bySize := map[uint64][]Cell{}
	for _, c := range g.Cells {
		if c.Verified {
			bySize[c.Bytes] = append(bySize[c.Bytes], c)
		}
	}
	for _, d := range g.Default {
		fresh := bySize[d.Bytes]
		if !d.Verified || len(fresh) == 0 {
			continue
		}
		best := slices.MinFunc(fresh, compareTimes)
		v := model.Verified{Bytes: d.Bytes, Micros: round(d.Micros, 6), DefaultMicros: round(d.Micros, 6), Repetitions: min(d.Reps, best.Reps)}
		if math.Log(d.Micros/best.Micros) > verifiedSigmas*math.Hypot(g.cellNoise(d), g.cellNoise(best))+d.Drift {
			v.Micros = round(best.Micros, 6)
			v.Algo, v.Proto, v.Channels = best.Config.Algo.String(), best.Config.Proto.String(), best.Config.Channels
		}
		all = append(all, v)
	}
	return all
}

// verifiedSigmas of the difference to the default, beyond what the default itself drifted by, make a configuration the
// winner. Less is as likely luck.
const verifiedSigmas = 0.5

// markVerified counts in each row the sizes at which its configuration won a verification.
func markVerified(rows []Row, verdicts []model.Verified) {
	for i := range rows {
		r := &rows[i]
		for _, v := range verdicts {
			if r.Bytes.Contains(v.Bytes) && v.Algo == r.Algo.String() && v.Proto == r.Proto.String() && v.Channels == r.Channels {
				r.Verified++
			}
		}
	}
}

// IsVerified reports whether all sizes were verified.
func (g *Group) IsVerified(sizes []uint64) bool {
	verified := map[uint64]bool{}
	for _, v := range g.verdicts() {
		verified[v.Bytes] = true
	}
	return !slices.ContainsFunc(sizes, func(b uint64) bool { return !verified[b] })
}
