package fit

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// latencyGroup measures one family with one channel at sizes from least: latency plus
// bytes at 100 GB/s, with 1 % noise.
func latencyGroup(rng *rand.Rand, key Key, f FamilyKey, latency float64, least uint64) *Group {
	g := &Group{Key: key, Noise: 0.01, NoisePairs: 50}
	for k := range 8 {
		b := least << k
		us := (latency + float64(b)/1e5) * math.Exp(0.01*rng.NormFloat64())
		g.Cells = append(g.Cells, Cell{Config: Config{f, 1}, Bytes: b, Micros: us, Reps: 1})
	}
	return g
}

var (
	ringLL     = FamilyKey{nccl.AlgoRing, nccl.ProtoLL}
	treeLL     = FamilyKey{nccl.AlgoTree, nccl.ProtoLL}
	nvlsSimple = FamilyKey{nccl.AlgoNVLS, nccl.ProtoSimple}
	nvlink     = &topo.Summary{Intra: "NVL"}
)

func TestConstantsAreFound(t *testing.T) {
	const base, hop, nvls = 7.0, 0.6, 24.0
	off := map[string][]float64{}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		set := &Set{Groups: []*Group{
			latencyGroup(rng, Key{nccl.CollAllGather, 1, 8}, ringLL, base+7*hop, 64),
			latencyGroup(rng, Key{nccl.CollAllReduce, 1, 4}, ringLL, base+6*hop, 64),
			latencyGroup(rng, Key{nccl.CollAllReduce, 1, 8}, ringLL, base+14*hop, 64),
			latencyGroup(rng, Key{nccl.CollAllReduce, 1, 8}, nvlsSimple, nvls, 64),
		}}
		c, findings := Constants(set, nvlink)
		want := map[string]float64{
			"base latency of ring/ll": base, "latency per hop of ring/ll over nvlink": hop, "latency per hop of nvls/simple over nvlink": nvls,
		}
		if len(findings) != len(want) || len(c.Values()) != len(want) {
			for _, f := range findings {
				t.Log(f, f.Micros, f.Sigma, f.Why)
			}
			t.FailNow()
		}
		for _, f := range findings {
			if f.Why != "" {
				t.Fatalf("%s: %s", f, f.Why)
			}
			off[f.String()] = append(off[f.String()], (f.Micros-want[f.String()])/f.Sigma)
		}
	}
	for name, z := range off {
		inside := 0
		for _, z := range z {
			if math.Abs(z) < quantile95 {
				inside++
			}
		}
		if share := float64(inside) / float64(len(z)); share < 0.8 {
			t.Errorf("%s: %.0f %% are inside their 90 %% interval", name, 100*share)
		}
	}
}

// What is not determined is not written, and there is a reason.
func TestConstantsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	ar8, ag8 := Key{nccl.CollAllReduce, 1, 8}, Key{nccl.CollAllGather, 1, 8}
	both := []*Group{latencyGroup(rng, ag8, ringLL, 11, 64), latencyGroup(rng, ar8, ringLL, 15, 64)}
	for name, test := range map[string]struct {
		groups []*Group
		home   *topo.Summary
		why    string
	}{
		"one number of hops": {[]*Group{latencyGroup(rng, ar8, treeLL, 12, 64)}, nvlink, "with 14 hops it takes 12"},
		"no small sizes":     {[]*Group{latencyGroup(rng, ar8, ringLL, 12, 1<<20), latencyGroup(rng, ag8, ringLL, 12, 1<<20)}, nvlink, "the smallest sizes measured are not small enough"},
		"several nodes":      {[]*Group{latencyGroup(rng, Key{nccl.CollAllReduce, 2, 16}, ringLL, 12, 64)}, nvlink, "measured over several nodes only"},
		"no topology":        {both, nil, "without the machine's topology"},
		"base without hop":   {both, nil, "holds only together with the latency per hop"},
		"uncertain": {[]*Group{latencyGroup(rng, Key{nccl.CollAllReduce, 1, 8}, ringLL, 30, 64), latencyGroup(rng, Key{nccl.CollAllGather, 1, 16}, ringLL, 30.2, 64)}, nvlink,
			" us is uncertain by "},
		"less than nothing": {[]*Group{latencyGroup(rng, ag8, ringLL, 20, 64), latencyGroup(rng, ar8, ringLL, 10, 64)}, nvlink, "which cannot be"},
		"no such constant":  {[]*Group{latencyGroup(rng, Key{nccl.CollBroadcast, 1, 8}, ringLL, 12, 64)}, nvlink, "no such latency for broadcast"},
	} {
		c, findings := Constants(&Set{Groups: test.groups}, test.home)
		found := false
		for _, f := range findings {
			found = found || strings.Contains(f.Why, test.why)
		}
		if c != nil || !found {
			text, _ := json.Marshal(c)
			t.Errorf("%s: written %s, found %+v", name, text, findings)
		}
	}
}
