package channels

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

func environ(settings string) func(string) string {
	return func(name string) string {
		for _, s := range strings.Split(settings, " & ") {
			if n, value, _ := strings.Cut(s, "="); n == name {
				return value
			}
		}
		return ""
	}
}

// choices are those for every collective and power of two from 1 KiB to 1 GiB on one HGX H100.
func choices(t *testing.T, version nccl.Version, settings string) (all []tuning.Choice) {
	t.Helper()
	doc, err := topo.ReadFile("../../configs/topo/dgx-h100.xml")
	if err != nil {
		t.Fatal(err)
	}
	v, err := VariablesFromEnv(environ(settings), version)
	if err != nil {
		t.Fatal(err)
	}
	comms, err := Tune(doc, TuneOptions{Settings: topo.Settings{NCCL: version}, Variables: v}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for coll := range nccl.Coll(nccl.NumColls) {
		for size := 10; size <= 30; size++ {
			all = append(all, comms[0].Tuning.Choose(coll, 1<<size, 1))
		}
	}
	return all
}

// As many of 105 choices differ as in the host code of NCCL 2.30.7 with the variables set.
func TestVariablesCount(t *testing.T) {
	alone := choices(t, nccl.Reference, "")
	for settings, want := range map[string]int{
		"NCCL_NVLS_ENABLE=0":                          10,
		"NCCL_NVLS_ENABLE=1":                          0,
		"NCCL_ALGO=allreduce:ring,tree":               10,
		"NCCL_MAX_NCHANNELS=8":                        50,
		"NCCL_MAX_NRINGS=8":                           50,
		"NCCL_MAX_NRINGS=2 & NCCL_MAX_NCHANNELS=8":    50,
		"NCCL_MIN_NCHANNELS=32":                       45,
		"NCCL_MAX_CTAS=6":                             65,
		"NCCL_NTHREADS=256":                           25,
		"NCCL_MAX_CTAS=0":                             0,
		"NCCL_MIN_NCHANNELS=0":                        0,
		"NCCL_NTHREADS=100":                           0,
		"NCCL_NTHREADS=x":                             0,
		"NCCL_NET_OVERHEAD=9000 & NCCL_PAT_ENABLE=0":  0, // there is one node
		"NCCL_ALGO=^pat":                              0,
		"NCCL_ALGO=":                                  0,
		"NCCL_MAX_NCHANNELS=99999999999999999999":     0,
		"NCCL_COLLNET_NODE_THRESHOLD=1":               0,
		"NCCL_THREAD_THRESHOLDS=8 8 64 64 8 64":       0, // the defaults
		"NCCL_THREAD_THRESHOLDS=8 8 64 64 8 64 & x=1": 0,
	} {
		changed := 0
		for i, c := range choices(t, nccl.Reference, settings) {
			if c.Algo != alone[i].Algo || c.Proto != alone[i].Proto || c.Channels != alone[i].Channels {
				changed++
			}
		}
		if changed != want {
			t.Errorf("%s changes %d choices, want %d", settings, changed, want)
		}
	}
}

// What NCCL_ALGO and NCCL_PROTO leave, which releases read differently.
func TestWhatVariablesLeave(t *testing.T) {
	for _, test := range []struct {
		nccl     nccl.Version
		settings string
		want     [nccl.NumColls]string // of broadcast, ..., allreduce at 1 MiB; "" is nothing
	}{
		{nccl.Reference, "NCCL_ALGO=tree", [...]string{"", "", "", "", "tree/ll128"}},
		{nccl.Reference, "NCCL_ALGO=tree;broadcast:ring", [...]string{"ring/ll", "", "", "", "tree/ll128"}},
		{nccl.Reference, "NCCL_ALGO=AllReduce:NVLS", [...]string{"ring/ll", "ring/ll", "ring/ll", "ring/ll",
			"nvls/simple"}},
		{nccl.Reference, "NCCL_ALGO=:allreduce::tree:ring", [...]string{"ring/ll", "ring/ll", "ring/ll", "ring/ll",
			"tree/ll128"}},
		{nccl.Reference, "NCCL_ALGO=tree:", [...]string{"", "", "", "", "tree/ll128"}},
		{nccl.Reference, "NCCL_PROTO=^LL,LL128", [...]string{"ring/simple", "ring/simple", "nvls/simple",
			"nvls/simple", "nvls/simple"}},
		{nccl.Reference, "NCCL_ALGO=allreduce:ring & NCCL_PROTO=simple", [...]string{"ring/simple", "ring/simple",
			"nvls/simple", "nvls/simple", "ring/simple"}},
		// 2.31 takes an algorithm for one collective as none for the others, once their protocol is chosen.
		{nccl.Newest, "NCCL_ALGO=allreduce:ring & NCCL_PROTO=simple", [...]string{"", "", "", "", "ring/simple"}},
		{nccl.Newest, "NCCL_ALGO=allreduce:ring", [...]string{"ring/ll", "ring/ll", "ring/ll", "ring/ll", "ring/ll"}},
		// Until 2.23 there is always a ring, and words that mean nothing do nothing.
		{22304, "NCCL_ALGO=tree", [...]string{"ring/ll", "ring/ll", "ring/ll", "ring/ll", "tree/ll128"}},
		{22304, "NCCL_ALGO=tree,rign", [...]string{"ring/ll", "ring/ll", "ring/ll", "ring/ll", "tree/ll128"}},
		// Until 2.23 a list is ignored if, it leaves none of ring, tree and NVLS.
		{22304, "NCCL_ALGO=nvls", [...]string{"ring/ll", "ring/ll", "nvls/simple", "nvls/simple", "nvls/simple"}},
		{22105, "NCCL_ALGO=pat", [...]string{"ring/ll", "ring/ll", "ring/ll", "ring/ll", "ring/ll"}},
	} {
		all := choices(t, test.nccl, test.settings)
		for coll, want := range test.want {
			got := ""
			if c := all[coll*21+10]; c.Algo >= 0 {
				got = nccl.Algos.Known[c.Algo] + "/" + nccl.Protos.Known[c.Proto]
			}
			if got != want {
				t.Errorf("NCCL %s with %s, %s: %q, want %q", test.nccl, test.settings,
					nccl.Colls.Known[coll], got, want)
			}
		}
	}
}

// Until 2.23 a list counts if it leaves ring, tree, NVLS on one node or NVLSTree on several. Else ring and tree stay.
func TestListsOfOldReleases(t *testing.T) {
	for _, c := range []struct {
		nodes   int
		collNet bool
		list    string
		ring    bool // it is left, though the list does not name it
	}{
		{1, false, "nvls", false}, {1, false, "nvls_tree", true}, {1, false, "nvlstree", true}, {1, false, "tree", false},
		{2, false, "nvls", true}, {2, false, "nvlstree", false}, {2, false, "nvls,nvlstree", false},
		{2, false, "collnetdirect", true}, {2, true, "collnetdirect", false}, {2, false, "tree,nvls", false},
		{2, false, "^ring", false}, {1, false, "^ring,tree,nvls", true}, {2, false, "^ring,tree,nvlstree", true},
	} {
		for version, has := range map[nccl.Version]bool{22105: c.ring, 22304: c.ring, nccl.Version(nccl.NoBackupRing): false} {
			if version.Has(nccl.PerCollective) && strings.Contains(c.list, "_") {
				continue // it would not start
			}
			v, err := VariablesFromEnv(func(name string) string { return map[string]string{"NCCL_ALGO": c.list}[name] }, version)
			if err != nil {
				t.Fatal(err)
			}
			m := &estimates{}
			m.Variables, m.NCCL, m.Nodes, m.CollNet = v, version, c.nodes, c.collNet
			if got := m.wanted(nccl.CollAllReduce, nccl.AlgoRing, nccl.ProtoSimple); got != has {
				t.Errorf("NCCL %s on %d nodes, %s: ring is left: %v", version, c.nodes, c.list, got)
			}
		}
	}
}

func TestVariablesThatNCCLRefuses(t *testing.T) {
	for settings, want := range map[string]string{
		"NCCL_ALGO=rign":                `NCCL_ALGO=rign: unknown word "rign" (allowed: Tree, Ring,`,
		"NCCL_PROTO=ll;simple":          `"simple" names no collective, which only the first list may`,
		"NCCL_ALGO=ring;alltoall:ring":  `unknown collective "alltoall" (allowed: Broadcast, `,
		"NCCL_PROTO=allreduce:ll,ll256": `unknown word "ll256" (allowed: LL, LL128, SIMPLE)`,
	} {
		if _, err := VariablesFromEnv(environ(settings), nccl.Reference); err == nil ||
			!strings.Contains(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), "NCCL 2.30.7 does not start with that") {
			t.Errorf("%s: %v, want %s", settings, err, want)
		}
	}
}

// What NCCL makes of numbers that are out of range, or are none.
func TestVariablesAsNumbers(t *testing.T) {
	for _, test := range []struct {
		settings string
		get      func(Variables) any
		want     any
	}{
		{"", func(v Variables) any { return v.CrossNIC }, topo.ToggleAuto},
		{"NCCL_CROSS_NIC=0", func(v Variables) any { return v.CrossNIC }, topo.ToggleOff},
		{"NCCL_CROSS_NIC=1", func(v Variables) any { return v.CrossNIC }, topo.ToggleOn},
		{"NCCL_CROSS_NIC=2", func(v Variables) any { return v.CrossNIC }, topo.ToggleAuto},
		{"NCCL_CROSS_NIC=3", func(v Variables) any { return v.CrossNIC }, topo.ToggleAuto},
		{"", func(v Variables) any { return v.PAT }, topo.ToggleAuto},
		{"NCCL_PAT_ENABLE=0", func(v Variables) any { return v.PAT }, topo.ToggleOff},
		{"NCCL_PAT_ENABLE=1", func(v Variables) any { return v.PAT }, topo.ToggleOn},
		{"NCCL_PAT_ENABLE=3", func(v Variables) any { return v.PAT }, topo.ToggleOn},
		{"NCCL_PAT_ENABLE=2", func(v Variables) any { return v.PAT }, topo.ToggleAuto},
		{"", func(v Variables) any { return v.NetOverhead }, float32(0)},
		{"NCCL_NET_OVERHEAD=0", func(v Variables) any { return v.NetOverhead }, float32(1)},
		{"NCCL_NET_OVERHEAD=-2", func(v Variables) any { return v.NetOverhead }, float32(0)},
		{"NCCL_NET_OVERHEAD=1500", func(v Variables) any { return v.NetOverhead }, float32(2.5)},
		{"", func(v Variables) any { return v.LL128NoC2C }, false},
		{"NCCL_LL128_C2C=0", func(v Variables) any { return v.LL128NoC2C }, true},
		{"NCCL_LL128_C2C=1", func(v Variables) any { return v.LL128NoC2C }, false},
		{"NCCL_COLLNET_NODE_THRESHOLD=-1", func(v Variables) any { return v.CollNetNodeThreshold }, 0},
		{"NCCL_COLLNET_NODE_THRESHOLD=3", func(v Variables) any { return v.CollNetNodeThreshold }, 3},
		{"NCCL_COLLNET_NODE_THRESHOLD=4294967296", func(v Variables) any { return v.CollNetNodeThreshold }, 1<<31 - 1},
		{"NCCL_MAX_NCHANNELS=0", func(v Variables) any { return v.MaxChannels }, 1},
		{"NCCL_MAX_NCHANNELS=65", func(v Variables) any { return v.MaxChannels }, 64},
		{"NCCL_MAX_NCHANNELS=-2", func(v Variables) any { return v.MaxChannels }, 0},
		{"NCCL_MAX_NRINGS=2 & NCCL_MAX_NCHANNELS=8", func(v Variables) any { return v.MaxChannels }, 8},
		{"NCCL_MIN_NRINGS=2", func(v Variables) any { return v.MinChannels }, 2},
		{"NCCL_MIN_CTAS=0", func(v Variables) any { return v.MinCTAs }, 0},
		{"NCCL_MIN_CTAS=1", func(v Variables) any { return v.MinCTAs }, 1},
		{"NCCL_MAX_CTAS=1000", func(v Variables) any { return v.MaxCTAs }, 64},
	} {
		v, err := VariablesFromEnv(environ(test.settings), nccl.Reference)
		if err != nil || test.get(v) != test.want {
			t.Errorf("%q: %v, %v, want %v", test.settings, test.get(v), err, test.want)
		}
	}
	v, err := VariablesFromEnv(environ("NCCL_THREAD_THRESHOLDS=8 -3 0 x 5 6"), nccl.Reference)
	if got := fmt.Sprint(v.ThreadThresholds[:5]); err != nil || got != "[9 0 1 0 0]" {
		t.Errorf("%s, %v: what comes after a word that is no number does not count", got, err)
	}
	if _, err := VariablesFromEnv(environ("NCCL_THREAD_THRESHOLDS=1 2 3 4 5 6 7 8"), nccl.Reference); err != nil {
		t.Error(err)
	}
}

func TestVariablesAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range NotCounted {
		if seen[v.Name] || v.Does == "" {
			t.Errorf("%+v is named twice, or not explained", v)
		}
		seen[v.Name] = true
	}
}
