package perfrun

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
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
			Topology: ncclchoice.Flags{NCCL: "2.28.9"}},
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

// A run's policy decides all sizes that nccl-tests may trim to those asked for, and no others.
func TestRowsOfARun(t *testing.T) {
	ring := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}}
	tree := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoSimple}, Channels: 8}
	sizes := []uint64{8, 1 << 10, 2 << 10, 4 << 10}
	for _, test := range []struct {
		coll    nccl.Coll
		configs []nccl.Config
		name    string
		rows    string
	}{
		{nccl.CollAllReduce, nil, "allreduce-2n-16r-default", ""},
		{nccl.CollAllReduce, []nccl.Config{ring, ring, ring, ring}, "allreduce-2n-16r-ring-ll", "5-4096 ring/ll"},
		{nccl.CollAllReduce, []nccl.Config{tree, tree, tree, tree}, "allreduce-2n-16r-tree-simple-8ch",
			"5-4096 tree/simple/8"},
		{nccl.CollAllReduce, []nccl.Config{ring, ring, tree, ring}, "allreduce-2n-16r-mixed-",
			"5-1024 ring/ll, 2045-2048 tree/simple/8, 4093-4096 ring/ll"},
		{nccl.CollAllGather, []nccl.Config{ring, tree, ring, ring}, "allgather-2n-16r-mixed-",
			"0-8 ring/ll, 769-1024 tree/simple/8, 1793-4096 ring/ll"},
	} {
		s := Of(fit.Key{Coll: test.coll, Comm: nccl.Comm{Nodes: 2, Ranks: 16}},
			fit.Run{Sizes: sizes, Configs: test.configs})
		var rows []string
		for _, r := range s.Rows {
			text := fmt.Sprintf("%d-%d %s", r.Bytes.Min, r.Bytes.Max, r.Config.Cell)
			if r.Config.Channels > 0 {
				text += fmt.Sprintf("/%d", r.Config.Channels)
			}
			rows = append(rows, text)
		}
		if got := strings.Join(rows, ", "); got != test.rows || !strings.HasPrefix(s.Name, test.name) ||
			(s.Policy != "") != (rows != nil) {
			t.Errorf("%s, policy %q: %s\nwant %s: %s", s.Name, s.Policy, got, test.name, test.rows)
		}
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

// The default and the policies take turns, with the default at the end. Who cannot change a configuration from size
// to size has a start for each.
func TestVerification(t *testing.T) {
	ring := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}}
	tree := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoSimple}, Channels: 8}
	key := fit.Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}
	sizes := []uint64{1024, 2048, 4096}
	policies := []fit.Run{{Sizes: sizes, Configs: []nccl.Config{ring, tree, ring}}, fit.RunOf(ring, sizes[1:2])}
	all := Verification(key, sizes, policies, 2)
	var got []string
	for _, s := range slices.Concat(all, Verification(key, sizes, nil, 2)) {
		got = append(got, fmt.Sprintf("%s %v by %q", s.Name, s.Sizes, s.Policy))
	}
	for _, s := range append(all[1].Split(), append(all[2].Split(), all[0].Split()...)...) {
		got = append(got, fmt.Sprintf("alone: %s %v by %q %v", s.Name, s.Sizes, s.Policy, s.ConfigsAt(sizes)))
	}
	got = append(got, fmt.Sprint("at 1K and 4K: ", all[1].ConfigsAt([]uint64{1024, 4096})))
	const n = "allreduce-1n-8r"
	want := []string{
		n + `-verify-rep1-default [1024 2048 4096] by ""`,
		n + `-verify-rep1-first [1024 2048 4096] by "` + n + `-verify-first"`,
		n + `-verify-rep1-second [2048] by "` + n + `-verify-second"`,
		n + `-verify-rep2-default [1024 2048 4096] by ""`,
		n + `-verify-rep2-first [1024 2048 4096] by "` + n + `-verify-first"`,
		n + `-verify-rep2-second [2048] by "` + n + `-verify-second"`,
		n + `-verify-rep3-default [1024 2048 4096] by ""`,
		"alone: " + n + `-verify-rep1-first-ring-ll [1024 4096] by "` + n + `-ring-ll" ` +
			fmt.Sprint([]nccl.Config{ring}),
		"alone: " + n + `-verify-rep1-first-tree-simple-8ch [2048] by "` + n + `-tree-simple-8ch" ` +
			fmt.Sprint([]nccl.Config{tree}),
		"alone: " + n + `-verify-rep1-second-ring-ll [2048] by "` + n + `-ring-ll" ` + fmt.Sprint([]nccl.Config{ring}),
		"alone: " + n + `-verify-rep1-default [1024 2048 4096] by "" []`,
		"at 1K and 4K: " + fmt.Sprint([]nccl.Config{ring}),
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
	if one := Of(key, fit.RunOf(tree, sizes)); len(one.Split()) != 1 || one.Split()[0].Name != one.Name {
		t.Errorf("a start of one configuration is split into %+v", one.Split())
	}
}
