package nccl

import (
	"reflect"
	"strings"
	"testing"
)

func TestReadRemarks(t *testing.T) {
	for text, want := range map[string]Remarks{
		"# tunefit:measured 2.28.9, 2.30.7\nallreduce,0,inf,ring,ll\n": {Measured: "2.28.9, 2.30.7"},
		"\ufeff# tunefit:measured RCCL 2.27.7 -- on one node\r\n":      {Measured: "RCCL 2.27.7"},
		"# tunefit:simulated\n":                                  {Simulated: true},
		"a,b\r\n  #tunefit:simulated  NCCL 2.30.7\r\n":           {Simulated: true, Measured: "2.30.7"},
		"# tunefit:measured 2.28.9\n# tunefit:measured 2.30.7\n": {Measured: "2.28.9"},
		"# tunefit:under NCCL_A=1 NCCL_B=x--y -- why\n# tunefit:under NCCL_C=2\n": {
			Under: []string{"NCCL_A=1 NCCL_B=x--y", "NCCL_C=2"}},
		"# tunefit:needs NCCL_MIN_NCHANNELS=16\n# tunefit:needs NCCL_MIN_NCHANNELS=8 NCCL_MIN_CTAS=4 -- why": {
			Floors: Floors{16, 4}},
		"# tunefit:nodes 4 -- not measured on 8\n":                        {Nodes: 4},
		"# so it is; tunefit:ignore gap, reg-buff -- gap\n":               {Ignored: []string{"gap", "reg-buff"}},
		"# tunefit:ignore\tgap":                                           {Ignored: []string{"gap"}},
		"# tunefit:measurd 2.30.7\n":                                      {Unknown: []string{"measurd"}},
		"allreduce,0,inf,ring,ll,1,1,8,-1,-1,# tunefit:measured 2.28.9\n": {},
		"# as printed by tunefit: the rows\n":                             {},

		// Of releases up to 0.2.0.
		"a,b\r\n  #measured with NCCL 2.30.7 \r\n":    {Measured: "2.30.7"},
		"# measured with RCCL 2.27.7":                 {Measured: "RCCL 2.27.7"},
		"# measured with NCCL 2.28.9, RCCL 2.27.7\n":  {Measured: "2.28.9, RCCL 2.27.7"},
		"# measured with NCCL 1.2.3\n":                {Measured: "1.2.3"},
		"# measured with care\n# simulated annealing": {},
		"# simulated":                    {Simulated: true},
		"# simulated with NCCL 2.28.9\n": {Simulated: true, Measured: "2.28.9"},
		"# measured under NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0: for jobs with these variables only\n" +
			"# measured in CUDA graphs, for jobs that replay graphs. measured under NCCL_IB_DISABLE=1: for jobs with " +
			"these variables only\r\n": {Under: []string{"NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0", "NCCL_IB_DISABLE=1"}},
		"# needs NCCL_MIN_CTAS=16 in the job: so many channels were measured only with that\n": {Floors: Floors{CTAs: 16}},
		"# 1MiB - 16MiB: not measured on 4 nodes; on 2 nodes with 32 channels 40 % faster":     {Nodes: 2},
	} {
		if got := ReadRemarks([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestLackedVariables(t *testing.T) {
	under := []string{"NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0", "NCCL_IB_DISABLE=1", "NCCL_NVLS_ENABLE=0"}
	for set, want := range map[string]string{
		"":                      "NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0 NCCL_IB_DISABLE=1",
		"NCCL_MAX_NCHANNELS=24": "NCCL_NVLS_ENABLE=0 NCCL_IB_DISABLE=1",
		"NCCL_MAX_NCHANNELS=8":  "NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0 NCCL_IB_DISABLE=1",
	} {
		got := LackedVariables(under, func(name string) string {
			value, _ := strings.CutPrefix(set, name+"=")
			if value == set {
				return ""
			}
			return value
		})
		if strings.Join(got, " ") != want {
			t.Errorf("with %q a job lacks %q, want %q", set, got, want)
		}
	}
}
