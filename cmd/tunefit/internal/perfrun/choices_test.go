package perfrun

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

func TestChoicesRefused(t *testing.T) {
	for want, c := range map[string]Choices{
		"--channels 0 (allowed: 1 to 64)":           {Channels: []int{4, 0}},
		"--channels 65 (allowed: 1 to 64)":          {Channels: []int{65, 4}},
		"--channels: none given (allowed: 1 to 64)": {},
		"--skip \"ring\": not ALGORITHM/PROTOCOL":   {Channels: []int{1}, Skip: []string{"ring/ll", "ring"}},
		"--nccl needs --topo, the machine on which that re": {Channels: []int{1},
			Topology: ask.Flags{NCCL: "2.28.9"}},
	} {
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	all := Choices{Channels: []int{64, 1, 64}}
	if err := all.Check(); err != nil || fmt.Sprint(all.Channels) != "[1 64]" {
		t.Errorf("%v, %v", err, all.Channels)
	}
}

// A pass's policy decides all sizes that nccl-tests may trim to those asked for, and no others.
func TestRowsOfAPass(t *testing.T) {
	ring := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}}
	tree := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoSimple}, Channels: 8}
	def := fit.ByDefault
	sizes := []uint64{8, 1 << 10, 2 << 10, 4 << 10}
	for _, test := range []struct {
		coll   nccl.Coll
		passes []fit.Pass
		name   string
		rows   string
	}{
		{nccl.CollAllReduce, []fit.Pass{{def, def, def, def}}, "allreduce-2n-16r-start03-default", ""},
		{nccl.CollAllReduce, []fit.Pass{{ring, ring, ring, ring}}, "allreduce-2n-16r-start03-ring-ll", "5-4096 ring/ll"},
		{nccl.CollAllReduce, []fit.Pass{{tree, tree, tree, tree}}, "allreduce-2n-16r-start03-tree-simple-8ch",
			"5-4096 tree/simple/8"},
		{nccl.CollAllReduce, []fit.Pass{{ring, ring, tree, ring}}, "allreduce-2n-16r-start03-mixed",
			"5-1024 ring/ll, 2045-2048 tree/simple/8, 4093-4096 ring/ll"},
		{nccl.CollAllReduce, []fit.Pass{{ring, def, ring, def}}, "allreduce-2n-16r-start03-ring-ll",
			"5-8 ring/ll, 2045-2048 ring/ll"},
		{nccl.CollAllGather, []fit.Pass{{ring, tree, ring, ring}}, "allgather-2n-16r-start03-mixed",
			"0-8 ring/ll, 769-1024 tree/simple/8, 1793-4096 ring/ll"},
		{nccl.CollAllReduce, []fit.Pass{{def, def, def, def}, {ring, ring, ring, ring}}, "allreduce-2n-16r-start03",
			"5-4096 ring/ll"},
	} {
		s := Of(fit.Key{Coll: test.coll, Comm: nccl.Comm{Nodes: 2, Ranks: 16}}, "", fit.Plan{Sizes: sizes}, test.passes, 3)
		var rows []string
		for _, p := range s.Passes {
			if (p.Policy != "") != (p.Rows != nil) {
				t.Errorf("%s: policy %q of %v", s.Name, p.Policy, p.Rows)
			}
			for _, r := range p.Rows {
				text := fmt.Sprintf("%d-%d %s", r.Bytes.Min, r.Bytes.Max, r.Config.Cell)
				if r.Config.Channels > 0 {
					text += fmt.Sprintf("/%d", r.Config.Channels)
				}
				rows = append(rows, text)
			}
		}
		if got := strings.Join(rows, ", "); got != test.rows || s.Name != test.name {
			t.Errorf("%s: %s\nwant %s: %s", s.Name, got, test.name, test.rows)
		}
		for k, p := range test.passes {
			for i, b := range sizes {
				if got := s.Passes[k].At(b); got != p[i] {
					t.Errorf("%s: at %d it asks for %v, want %v", s.Name, b, got, p[i])
				}
			}
		}
	}
}

// A start of an older release is one of one pass.
func TestStartOfAnOlderRelease(t *testing.T) {
	var starts []Start
	const text = `[{"name":"a","key":{"Coll":0,"nodes":1,"ranks":8},"sizes":[1024],"rows":[{"Algo":1}],"policy":"p"},` +
		`{"name":"b","sizes":[1024]},{"name":"c","sizes":[1024],"passes":[{"policy":"x"},{}]}]`
	if err := json.Unmarshal([]byte(text), &starts); err != nil {
		t.Fatal(err)
	}
	if p := starts[0].Passes; starts[0].Name != "a" || len(p) != 1 || p[0].Policy != "p" || len(p[0].Rows) != 1 {
		t.Errorf("%+v", starts[0])
	}
	if p := starts[1].Passes; len(p) != 1 || p[0].Policy != "" || starts[1].Tuned() {
		t.Errorf("%+v", starts[1])
	}
	if p := starts[2].Passes; len(p) != 2 || p[0].Policy != "x" || !starts[2].Tuned() {
		t.Errorf("%+v", starts[2])
	}
}

// What nccl-tests trims is asked for as it comes back, so that no run seems to lack sizes.
func TestSizesAsTrimmed(t *testing.T) {
	asked := []uint64{8, 1 << 10, 4 << 10, 1 << 20}
	for ranks, want := range map[int]string{8: "[8 1024 4096 1048576]", 24: "[8 768 3840 1048320]"} {
		key := fit.Key{Coll: nccl.CollAllGather, Comm: nccl.Comm{Nodes: ranks / 8, Ranks: ranks}}
		if got := fmt.Sprint(Sizes(key, nil, asked, true)); got != want {
			t.Errorf("%d ranks: %s, want %s", ranks, got, want)
		}
	}
}
