package model_test

import (
	"math"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/digest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// physicalModel is a model of ring/simple with 8 channels and tree/simple with 4 on 2 nodes of 4,
// made of physics alone.
func physicalModel(ring, tree []float64) *model.File {
	sizes := []uint64{1 << 10, 1 << 20, 1 << 30}
	family := func(algo string, channels int, w []float64) model.Family {
		c := model.Curve{Channels: channels, Min: sizes[0], Max: sizes[2], Sigma: []float64{0.02, 0.02, 0.02}}
		for _, b := range sizes {
			us := model.PhysicsMicros(w, float64(b), float64(channels), 1, 1)
			c.Micros = append(c.Micros, us)
			c.Measured = append(c.Measured, [2]float64{float64(b), us})
		}
		return model.Family{Algo: algo, Proto: "simple", Physics: w, PhysicsSigma: 0.03, Curves: []model.Curve{c}}
	}
	return &model.File{
		Format: model.Format, Version: model.Version, Scales: true,
		Provenance: model.Provenance{Topology: &model.Topology{
			Fingerprint: "aaaaaaaaaaaaaaaa:aaaaaaaaaaaaaaaa", Summary: topo.Summary{GPUs: 4, IntraBW: 400, NetBW: 100, NetLatency: 2},
		}},
		Groups: []model.Group{{Coll: "allreduce", Nodes: 2, Ranks: 8, Noise: 0.01, Axis: sizes, Families: []model.Family{family("ring", 8, ring), family("tree", 4, tree)}}},
	}
}

func machineOf(t *testing.T, fingerprint string, sum topo.Summary) *model.Machine {
	t.Helper()
	f, err := topo.ParseFingerprint(fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	return &model.Machine{Fingerprint: f, Summary: sum}
}

const (
	sameKind    = "aaaaaaaaaaaaaaaa:aaaaaaaaaaaaaaaa"
	similarKind = "aaaaaaaaaaaaaaaa:bbbbbbbbbbbbbbbb"
)

func TestScaling(t *testing.T) {
	links := []float64{20, 0, 0, 1e-4, 0, 0, 0, 0}    // 20 us and 10 GB/s on the links
	channels := []float64{20, 0, 4e-4, 0, 0, 0, 0, 0} // the same at 4 channels, per channel
	file := physicalModel(links, channels)
	m, err := model.Compile("m", file)
	if err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	for _, test := range []struct {
		name       string
		sum        topo.Summary
		ring, tree float64 // us at 1 MiB; 0: silent
	}{
		{"as at home", topo.Summary{GPUs: 4, IntraBW: 400, NetBW: 100, NetLatency: 2}, 20 + 1e-4*mib, 20 + 1e-4*mib},
		{"wider inside only", topo.Summary{GPUs: 4, IntraBW: 800, NetBW: 100, NetLatency: 2}, 20 + 1e-4*mib, 20 + 1e-4*mib},
		{"network half as wide", topo.Summary{GPUs: 4, IntraBW: 400, NetBW: 50, NetLatency: 2}, 20 + 2e-4*mib, math.Sqrt((20 + 1e-4*mib) * (20 + 2e-4*mib))},
		{"inside narrower than the network", topo.Summary{GPUs: 4, IntraBW: 50, NetBW: 100, NetLatency: 2}, 20 + 2e-4*mib, math.Sqrt((20 + 1e-4*mib) * (20 + 2e-4*mib))},
		{"longer network", topo.Summary{GPUs: 4, IntraBW: 400, NetBW: 100, NetLatency: 5}, 26 + 1e-4*mib, 26 + 1e-4*mib},
		{"far wider", topo.Summary{GPUs: 4, IntraBW: 4000, NetBW: 500, NetLatency: 2}, 0, 0},
		{"not known how wide", topo.Summary{GPUs: 4, IntraBW: 400}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := policy.NewEngine(nil, m, machineOf(t, similarKind, test.sum))
			if test.ring == 0 {
				if e.Model != nil || e.Standing != model.DifferentMachine {
					t.Errorf("used, %q", e.Standing)
				}
				return
			}
			if e.Standing != model.SimilarMachine {
				t.Fatalf("standing %q", e.Standing)
			}
			v := e.Model.For(2, 8)
			for algo, want := range map[nccl.Algo]float64{nccl.AlgoRing: test.ring, nccl.AlgoTree: test.tree} {
				ln, sigma, ok := v.Predict(nccl.CollAllReduce, algo, nccl.ProtoSimple, map[nccl.Algo]int{nccl.AlgoRing: 8, nccl.AlgoTree: 4}[algo], mib)
				// Tree's bytes are per channel: they may wait for the link or not.
				open := math.Hypot(0.03, math.Log(test.tree/(20+1e-4*mib)))
				if algo == nccl.AlgoRing || test.name == "longer network" {
					open = 0.03
				}
				if !ok || math.Abs(ln-math.Log(want)) > 1e-12 || math.Abs(sigma-open) > 1e-12 {
					t.Errorf("%s takes %g us (sigma %g), want %g (%g)", algo, math.Exp(ln), sigma, want, open)
				}
			}
			if e.Digest == m.Digest() {
				t.Error("a scaled model has the digest of the model at home")
			}
		})
	}
	if e := policy.NewEngine(nil, m, machineOf(t, sameKind, topo.Summary{})); e.Standing != model.SameMachine || e.Digest != m.Digest() {
		t.Errorf("at home: %q", e.Standing)
	}
}

// Constants hold on the kind of machine that they were fitted on, and on no other.
func TestConstantsStayAtHome(t *testing.T) {
	f := physicalModel([]float64{20, 0, 0, 1e-4, 0, 0, 0, 0}, []float64{20, 0, 4e-4, 0, 0, 0, 0, 0})
	constant("ring", "ll", 6)(f)
	m, err := model.Compile("m", f)
	if err != nil {
		t.Fatal(err)
	}
	home := f.Provenance.Topology.Summary
	for fingerprint, want := range map[string]int{sameKind: 1, similarKind: 0, "cccccccccccccccc:cccccccccccccccc": 0} {
		if got := policy.NewEngine(nil, m, machineOf(t, fingerprint, home)).Constants(); len(got) != want {
			t.Errorf("on %s: %v", fingerprint, got)
		}
	}
	if got := policy.NewEngine(nil, m, nil).Constants(); len(got) != 0 {
		t.Errorf("on a machine that is not known: %v", got)
	}
}

// Two machines that scale differently do not decide alike.
func TestScaledDigest(t *testing.T) {
	m, err := model.Compile("m", physicalModel([]float64{20, 0, 0, 1e-4, 0, 0, 0, 0}, []float64{20, 0, 4e-4, 0, 0, 0, 0, 0}))
	if err != nil {
		t.Fatal(err)
	}
	home := m.File.Provenance.Topology.Summary
	digest := func(change func(*topo.Summary)) digest.Digest {
		sum := home
		change(&sum)
		return policy.NewEngine(nil, m, machineOf(t, similarKind, sum)).Digest
	}
	first := digest(func(*topo.Summary) {})
	for name, change := range map[string]func(*topo.Summary){
		"intra":   func(s *topo.Summary) { s.IntraBW = 401 },
		"net":     func(s *topo.Summary) { s.NetBW = 101 },
		"latency": func(s *topo.Summary) { s.NetLatency = 2.1 },
	} {
		if digest(change) == first {
			t.Errorf("%s does not change the digest", name)
		}
	}
	if digest(func(s *topo.Summary) { s.CPUs = 7 }) != first {
		t.Error("what is not used changes the digest")
	}
}

// The machine measured on counts as far as it is scaled from.
func TestHomeInDigest(t *testing.T) {
	digest := func(scales bool, netBW float64) digest.Digest {
		f := physicalModel([]float64{20, 0, 0, 1e-4, 0, 0, 0, 0}, []float64{20, 0, 4e-4, 0, 0, 0, 0, 0})
		f.Scales, f.Provenance.Topology.Summary.NetBW = scales, netBW
		m, err := model.Compile("m", f)
		if err != nil {
			t.Fatal(err)
		}
		return m.Digest()
	}
	if digest(false, 100) != digest(false, 200) || digest(true, 100) == digest(true, 200) {
		t.Error("the digest does not follow what is scaled")
	}
}

// A scaled model speaks only where the gain is as large as for more nodes.
func TestScaledModelIsCautious(t *testing.T) {
	for _, test := range []struct {
		ring float64 // us, where tree takes 100
		why  model.Silence
	}{{60, model.Speaks}, {75, model.SilentFarther}} {
		flat := func(us float64) []float64 { return []float64{us, 0, 0, 0, 0, 0, 0, 0} }
		m, err := model.Compile("m", physicalModel(flat(test.ring), flat(100)))
		if err != nil {
			t.Fatal(err)
		}
		q := policy.Query{Coll: nccl.CollAllReduce, Bytes: 1 << 20, Costs: costsOf(func(c []float32) { c[2], c[0] = 1, -1 })}
		home := m.File.Provenance.Topology.Summary
		if a := policy.NewEngine(nil, m, machineOf(t, sameKind, home)).For(policy.Comm{Nodes: 2, Ranks: 8}).Decide(q); a.By != policy.ByModel {
			t.Errorf("%g us at home: %s", test.ring, a.Silence)
		}
		if a := policy.NewEngine(nil, m, machineOf(t, similarKind, home)).For(policy.Comm{Nodes: 2, Ranks: 8}).Decide(q); a.Silence != test.why {
			t.Errorf("%g us on a similar machine: %q, want %q", test.ring, a.Silence, test.why)
		}
	}
}

func TestTopologyAndConstantsErrors(t *testing.T) {
	for _, test := range []struct {
		change func(*model.File)
		want   string
	}{
		{func(f *model.File) { f.Provenance.Topology.Fingerprint = "x" }, `m: provenance.topology.fingerprint: "x" is no topology fingerprint`},
		{func(f *model.File) { f.Provenance.Topology = nil }, "m: scales: true, and there is no provenance.topology to scale from"},
		{func(f *model.File) { f.Provenance.Topology.Summary.NetBW = -1 }, "m: provenance.topology.summary.net_bw: -1 (allowed: 0 or more)"},
		{func(f *model.File) { f.Groups[0].Families[0].Physics = []float64{1, 2} }, "m: groups[0].families[0].physics: [1 2] (allowed: none, or 8 numbers"},
		{func(f *model.File) { f.Constants = &model.Constants{} }, "m: constants: no values"},
		{constant("rign", "ll", 1), `m: constants.base_latencies[0]: unknown algorithm "rign" (did you mean "ring"`},
		{constant("ring", "ll129", 1), `m: constants.base_latencies[0]: unknown protocol "ll129" (did you mean "ll128"`},
		{constant("ring", "ll", -1), "m: constants.base_latencies[0]: us is -1 (allowed: 0 to 10000)"},
		{constant("ring", "ll", math.NaN()), "m: constants.base_latencies[0]: us is NaN (allowed: 0 to 10000)"},
		{func(f *model.File) {
			f.Constants = &model.Constants{HWLatencies: []model.LatencyConstant{{Link: "nvlnk", Algo: "ring", Proto: "ll", Micros: 1}}}
		}, `m: constants.hw_latencies[0]: unknown link "nvlnk" (did you mean "nvlink"; allowed: nvlink, pci, net)`},
		{func(f *model.File) {
			f.Constants = &model.Constants{LLMaxBWs: []model.BandwidthConstant{{GPU: "hopper", Nodes: "1", GBps: 140}, {GPU: "hopper", Nodes: "1", GBps: 0}, {GPU: "hopper", Nodes: "1", GBps: 140}}}
		}, "m: constants.ll_max_bws[1]: gbps is 0 (allowed: 0.001 to 100000)\nm: constants.ll_max_bws[2]: there is a value for this already"},
	} {
		f := physicalModel(make([]float64, model.NumPhysics), make([]float64, model.NumPhysics))
		for i := range f.Groups[0].Families {
			f.Groups[0].Families[i].Curves[0].Micros = []float64{1, 2, 3}
		}
		test.change(f)
		if _, err := model.Compile("m", f); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v\nwant %s", err, test.want)
		}
	}
}

func constant(algo, proto string, us float64) func(*model.File) {
	return func(f *model.File) {
		f.Constants = &model.Constants{BaseLatencies: []model.LatencyConstant{{Algo: algo, Proto: proto, Micros: us}}}
	}
}
