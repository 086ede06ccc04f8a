package fit

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

func readSweep(t testing.TB, file string) *Set {
	t.Helper()
	f, err := os.Open("../../../shared/data/sweeps/" + file)
	if err != nil {
		t.Skipf("SKIPPED, the reference data is not there: %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	col := map[string]int{}
	for i, n := range rows[0] {
		col[n] = i
	}
	p := NewPool()
	for _, r := range rows[1:] {
		get := func(n string) string {
			if i, ok := col[n]; ok {
				return r[i]
			}
			return ""
		}
		num := func(n string) float64 { v, _ := strconv.ParseFloat(get(n), 64); return v }
		s := bench.Sample{Algo: -1, Proto: -1, Bytes: uint64(num("size_bytes")), DType: get("dtype"), RedOp: get("redop"), Channels: int(num("channels")), Nodes: int(num("nodes")), Ranks: int(num("ranks")), InPlace: get("inplace") == "1", Micros: num("time_us")}
		s.Coll, _ = policy.ParseColl(get("collective"))
		for a := policy.AlgoTree; a <= policy.AlgoPAT; a++ {
			if a.String() == get("algorithm") {
				s.Algo = a
			}
		}
		for a := policy.ProtoLL; a <= policy.ProtoSimple; a++ {
			if a.String() == get("protocol") {
				s.Proto = a
			}
		}
		switch get("selection") {
		case "default":
			s.Selection = bench.SelectionDefault
		case "forced":
			s.Selection = bench.SelectionForced
		}
		p.Add(&s)
	}
	return p.Set()
}

func TestExplore(t *testing.T) {
	for _, f := range []string{"mi355x_allreduce_1n_2n.csv", "mi355x_reducescatter_1n_2n.csv"} {
		set := readSweep(t, f)
		t.Logf("%s rows %d used %d refused %v", f, set.Rows, set.Used, set.Refused)
		for _, g := range set.Groups {
			t.Logf("%s cells %d default %d noise %.4f (%d) twins %d", g.Key, len(g.Cells), len(g.Default), g.Noise, g.NoisePairs, len(g.Twins))
			for _, c := range g.Cells {
				if c.Outlier {
					t.Logf("  outlier %v %d", c.Config, c.Bytes)
				}
			}
			sizes := g.Sizes()
			var regrets []float64
			var inside, n int
			for parity := range 2 {
				tr := g.subset(func(c Cell) bool { return idx(sizes, c.Bytes)%2 == parity }, func(c Cell) bool { return true })
				trs := tr.Sizes()
				var test []uint64
				for i, s := range sizes {
					if i%2 != parity && s > trs[0] && s < trs[len(trs)-1] {
						test = append(test, s)
					}
				}
				r, in, k := exploreEval(g, tr, test)
				regrets = append(regrets, r...)
				inside += in
				n += k
			}
			t.Logf("  sizes: mean %.4f p95 %.4f max %.4f inside %.3f", mean(regrets), quantile(regrets, .95), quantile(regrets, 1), float64(inside)/float64(n))
			for _, share := range []float64{.5, .25} {
				rng := rand.New(rand.NewPCG(1, 2))
				var all []float64
				inside, n = 0, 0
				for range 60 {
					keep := map[Cell]bool{}
					for _, c := range g.Cells {
						keep[c] = rng.Float64() < share
					}
					r, in, k := exploreEval(g, g.subset(func(c Cell) bool { return keep[c] }, func(Cell) bool { return true }), sizes)
					all = append(all, r...)
					inside += in
					n += k
				}
				t.Logf("  cells %.2f: mean %.4f p95 %.4f max %.4f inside %.3f", share, mean(all), quantile(all, .95), quantile(all, 1), float64(inside)/float64(n))
			}
		}
	}
}

func idx(s []uint64, b uint64) int {
	for i, v := range s {
		if v == b {
			return i
		}
	}
	return -1
}

var kk = func() float64 { v, _ := strconv.ParseFloat(os.Getenv("KK"), 64); return v }()

func exploreEval(g, tr *Group, test []uint64) (regrets []float64, inside, n int) {
	best := map[uint64]float64{}
	choice := map[uint64]Config{}
	for _, cells := range tr.families() {
		f := tr.fitFamily(cells)
		if j, ok := f.predictor.(*joint); ok && os.Getenv("SC") != "" {
			fmt.Println("SC", tr.Key, cells[0].Config.FamilyKey, j.process.scale, j.process.gapScale)
		}
		for _, ch := range f.channels {
			m, s := f.predict(ch, test)
			cfg := Config{cells[0].Config.FamilyKey, ch}
			for i, b := range test {
				c, ok := g.at(cfg, b)
				if !ok {
					continue
				}
				if _, known := tr.at(cfg, b); !known {
					n++
					if math.Abs(math.Log(c.Micros)-m[i]) < 1.645*s[i] {
						inside++
					}
				}
				if v, ok := best[b]; !ok || m[i]+kk*s[i] < v {
					best[b], choice[b] = m[i]+kk*s[i], cfg
				}
			}
		}
	}
	for _, b := range test {
		least := math.Inf(1)
		for _, c := range g.Cells {
			if c.Bytes == b {
				least = min(least, c.Micros)
			}
		}
		c, _ := g.at(choice[b], b)
		regrets = append(regrets, c.Micros/least)
		if c.Micros/least > 1.05 && os.Getenv("SC") != "" {
			_, known := tr.at(c.Config, b)
			fmt.Println("SC", g.Key, b, c.Config, c.Micros, math.Exp(best[b]), least, known, len(tr.Cells))
		}
	}
	return
}
