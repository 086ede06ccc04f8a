package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
)

// trySettings plays a sweep that tries settings of a job on a machine whose starts differ, as tunefit sweep goes about
// it. factors are of the times under each of the variables, the first of the site's own.
func trySettings(t *testing.T, truth *Group, variables []string, factors []float64, noise, between float64, seed uint64) *Comparison {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 5))
	start, now := -1, 0.0
	draw := func(s, _ int) float64 {
		if s != start {
			start, now = s, math.Exp(between*random.NormFloat64())
		}
		return now
	}
	p := NewPool()
	var clusters []*cluster
	for i, factor := range factors {
		c := newCluster(truth, noise, seed*100+uint64(i), func(s, v int) float64 { return factor * draw(1000*i+s, v) })
		if clusters = append(clusters, c); i == 0 {
			c.sweep(t)
			continue
		}
		plan := clusters[0].space.Meeting(clusters[0].group())
		plan.Stage = StageRound // it is no verification
		c.run(plan)
	}
	var sets []*Set
	for _, c := range clusters {
		sets = append(sets, c.set())
	}
	best := Finalists(sets, nil)
	for _, i := range best {
		clusters[i].run(clusters[i].space.Round(clusters[i].group()))
	}
	for range MeetingStarts {
		for _, i := range append([]int{0}, best...) {
			clusters[i].run(clusters[i].space.Meeting(clusters[i].group()))
		}
	}
	for i, c := range clusters {
		for k := range c.samples {
			s := c.samples[k]
			if i > 0 {
				s.Setup = &bench.Setup{Variables: variables[i]}
			}
			p.Begin(string(rune('0' + i)))
			p.Add(&s)
		}
	}
	return p.Settings(nil)
}

// A setting that gains is chosen, and none where all are alike: at 1 % noise, and 2 % between starts.
func TestSettingsUnderNoise(t *testing.T) {
	draws := 40
	if testing.Short() {
		draws = 4
	}
	truth := channelGrids(t)[0].Group
	threads := []string{"", "NCCL_NTHREADS=1", "NCCL_NTHREADS=2", "NCCL_NTHREADS=3"}
	for _, test := range []struct {
		name      string
		variables []string
		factors   []float64
		want      int
	}{
		{"8 % gain", threads, []float64{1, 1, 0.92, 1}, 2},
		{"alike", threads, []float64{1, 1, 1, 1}, 0},
		{"two are worse", threads, []float64{1, 1.2, 1.3, 1}, 0},
		{"a variable without effect", []string{"", "NCCL_BUFFSIZE=1 NCCL_NTHREADS=2", "NCCL_NTHREADS=2"},
			[]float64{1, 0.92, 0.92}, 2},
	} {
		chosen := 0
		for seed := range draws {
			c := trySettings(t, truth, test.variables, test.factors, 0.01, 0.02, uint64(1000+seed))
			if c.Best == test.want {
				chosen++
			}
		}
		t.Logf("%s: chosen in %d of %d", test.name, chosen, draws)
		if chosen*20 < draws*19 {
			t.Errorf("%s: chosen in %d of %d", test.name, chosen, draws)
		}
	}
}
