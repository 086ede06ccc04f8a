package model_test

import (
	"math"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Constants hold on the kind of machine that they were fitted on, and on no other.
func TestConstantsStayAtHome(t *testing.T) {
	f := smallModel()
	f.Provenance.Topology = &model.Topology{Fingerprint: "aaaaaaaaaaaaaaaa"}
	constant("ring", "ll", 6)(f)
	m, err := model.Compile("m", f)
	if err != nil {
		t.Fatal(err)
	}
	for fingerprint, want := range map[topo.Fingerprint]int{"aaaaaaaaaaaaaaaa": 1, "cccccccccccccccc": 0} {
		if got := policy.NewEngine(nil, m, &model.Machine{Fingerprint: fingerprint}).Constants(); len(got) != want {
			t.Errorf("on %s: %v", fingerprint, got)
		}
	}
	if got := policy.NewEngine(nil, m, nil).Constants(); len(got) != 0 {
		t.Errorf("on a machine that is not known: %v", got)
	}
}

func TestTopologyAndConstantsErrors(t *testing.T) {
	for _, test := range []struct {
		change func(*model.File)
		want   string
	}{
		{func(f *model.File) { f.Provenance.Topology = &model.Topology{Fingerprint: "x"} }, `m: provenance.topology.fingerprint: "x" is no topology fingerprint`},
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
		f := smallModel()
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
