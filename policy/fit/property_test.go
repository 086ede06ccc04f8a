package fit

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// oddSweep is a sweep of any shape: with holes, noise, lone spikes, few sizes or many close
// ones, a default at some sizes, labelled or not, labels that lie, channels that NCCL chose,
// and sizes that were verified.
func oddSweep(seed uint64) (all []bench.Sample) {
	rng := rand.New(rand.NewPCG(seed, 77))
	chance := func(p float64) bool { return rng.Float64() < p }
	m := smallMachine()
	m.Coll = nccl.Coll(rng.IntN(nccl.NumColls))
	m.Nodes = 1 + rng.IntN(2)
	m.Ranks = 8 * m.Nodes
	m.everyCell = chance(0.3)
	m.noise = []float64{0, 0.002, 0.02, 0.1}[rng.IntN(4)]
	m.channels = [][]int{{8}, {1, 32}, {1, 4, 16, 64}, {1, 2, 4, 8, 16, 32}}[rng.IntN(4)]
	m.sizes = nil
	step := []float64{0.03, 0.5, 1, 1, 2, 5}[rng.IntN(6)]
	for n, o := 1+rng.IntN(12), 8+6*rng.Float64(); len(m.sizes) < n && o < 50; o += step * (0.5 + rng.Float64()) {
		m.sizes = append(m.sizes, uint64(math.Exp2(o)))
	}
	slices.Sort(m.sizes)
	m.sizes = slices.Compact(m.sizes)
	configs := m.configs()
	kept, labelled, defaults := []float64{1, 1, 0.5, 0.2}[rng.IntN(4)], chance(0.7),
		[]float64{1, 1, 0.5, 0}[rng.IntN(4)]
	own, verify, spikes, aliases := chance(0.1), []float64{0, 0, 0.3, 1}[rng.IntN(4)], chance(0.3), chance(0.2)
	if chance(0.2) {
		configs = slices.DeleteFunc(configs, func(c nccl.Config) bool { return c.Cell == m.byDefault(1).Cell })
	}
	reps := 1 + rng.IntN(3)
	add := func(s bench.Sample) {
		if spikes && chance(0.03) {
			s.Micros *= 3
		}
		all = append(all, s)
	}
	byDefault := func(b uint64) bench.Sample {
		s := m.sample(m.byDefault(b), b, bench.SelectionDefault, rng)
		s.Micros *= 1.05
		if !labelled {
			s.Algo, s.Proto, s.Channels = bench.Unknown, bench.Unknown, 0
		}
		return s
	}
	for range reps {
		for _, b := range m.sizes {
			if chance(defaults) {
				add(byDefault(b))
			}
			for _, c := range configs {
				if !chance(kept) {
					continue
				}
				of := c
				if aliases && b > 1<<18 {
					of.Proto = nccl.ProtoSimple
				}
				s := m.sample(of, b, bench.SelectionForced, rng)
				s.Proto = c.Proto
				if own {
					s.Selection = bench.SelectionOwnChannels
				}
				add(s)
			}
		}
	}
	for _, b := range m.sizes {
		if !chance(verify) {
			continue
		}
		for range 2 {
			s := byDefault(b)
			s.Verify = true
			add(s)
			for range 3 {
				s := m.sample(configs[rng.IntN(len(configs))], b, bench.SelectionForced, rng)
				s.Verify = true
				add(s)
			}
		}
	}
	return all
}

// Whatever was measured, a fit gives a model and rows that keep what they promise.
func TestRowsDecideAsTheModel(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 20
	}
	decided, rowsSeen := 0, 0
	for seed := range uint64(seeds) {
		all := oddSweep(seed)
		if len(all) == 0 {
			continue
		}
		set := pooled(all)
		file, _ := Fit(set, Options{})
		text, err := marshalModel(file)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, _ := Fit(pooled(oddSweep(seed)), Options{})
		if twice, _ := marshalModel(again); !bytes.Equal(text, twice) {
			t.Errorf("seed %d: the same samples give two models", seed)
		}
		m, err := model.Read("model.json", text)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(file.CurveSets) == 0 {
			continue
		}
		rows := Rows(m)
		rowsSeen += len(rows)
		var csv bytes.Buffer
		if err := WriteRows(&csv, rows, nccl.AnyRelease); err != nil {
			t.Fatal(err)
		}
		p, err := policy.ReadCSV("rows.csv", csv.Bytes())
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, csv.Bytes())
		}
		if len(p.Rules) != len(rows) {
			t.Fatalf("seed %d: %d rules of %d rows", seed, len(p.Rules), len(rows))
		}
		n, problem := rowsKeep(set.Groups[0], m, rows)
		decided += n
		if problem != "" {
			t.Errorf("seed %d: %s\n%s", seed, problem, csv.Bytes())
		}
	}
	t.Logf("%d rows, %d decisions", rowsSeen, decided)
	if decided < seeds {
		t.Errorf("%d decisions: the test is too weak", decided)
	}
}

// rowsKeep compares rows with the model that they are made of: at each size measured, but for
// those that another one close by stands for.
func rowsKeep(g *Group, m *model.Model, rows []Row) (decided int, problem string) {
	view := m.For(g.Comm)
	for i, r := range rows {
		if r.Bytes.Min > r.Bytes.Max || i > 0 && r.Bytes.Min <= rows[i-1].Bytes.Max {
			return decided, fmt.Sprintf("row %d is empty or overlaps: %s", i, r)
		}
		points := g.pointsOf(r.Config)
		if len(points) == 0 {
			return decided, fmt.Sprintf("row %d is for a configuration that was not measured: %s", i, r)
		}
		least, most := points[0].Bytes, points[len(points)-1].Bytes
		// half of the way to the next size
		least, most = uint64(float64(least)/math.Exp2(farApart/2)), uint64(float64(most)*math.Exp2(farApart/2))+1
		if r.Bytes.Min < least || r.Bytes.Max > most {
			return decided, fmt.Sprintf("row %d is for sizes its configuration was not measured at: %s", i, r)
		}
	}
	measured := m.File.CurveSets[0].Sizes()
	places := closer(measured)
	sizes := slices.DeleteFunc(measured, func(b uint64) bool { return !slices.Contains(places, b) })
	for _, v := range m.File.CurveSets[0].Verified {
		sizes, places = append(sizes, v.Bytes), append(places, v.Bytes)
	}
	slices.Sort(places)
	places = slices.Compact(places)
	choose := func(b uint64) (choice model.Choice, why model.Abstention, decides bool) {
		choice, why = view.Choose(nccl.Call{Coll: g.Coll, Bytes: b}, everything)
		return choice, why, why == model.Decides && (choice.Channels == 0 || nccl.ChannelsCanBeSet(choice.Algo, g.Nodes))
	}
	for _, b := range sizes {
		choice, why, decides := choose(b)
		// At one exact size the model decides at all, or for this configuration.
		alone, only := true, true
		at, _ := slices.BinarySearch(places, b)
		for _, k := range []int{at - 1, at + 1} {
			if k >= 0 && k < len(places) {
				next, _, too := choose(places[k])
				alone = alone && !too
				only = only && !(too && next.Config == choice.Config)
			}
		}
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Bytes.Contains(b) })
		switch {
		case i < 0 && decides && !alone && !only:
			return decided, fmt.Sprintf("no row at %d, the model says %+v", b, choice)
		case i < 0:
			continue
		case !decides:
			return decided, fmt.Sprintf("a row at %d, the model abstains: %s (%+v)", b, why, choice)
		}
		decided++
		r := rows[i]
		ln := view.Predict(g.call(b), r.Config).LnMicros
		switch {
		case choice.Verified && choice.Config != r.Config:
			return decided, fmt.Sprintf("at %d %s won a verification, the row says %s", b, choice.Config, r)
		case !choice.Verified && !(ln-choice.LnMicros <= mostLost+1e-9):
			return decided, fmt.Sprintf("at %d the row loses %.4f: %s, the model says %+v", b,
				ln-choice.LnMicros, r, choice)
		}
	}
	return decided, ""
}
