package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// one is a sample of a kind that tests change.
func one(change func(*bench.Sample)) bench.Sample {
	s := bench.Sample{
		Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 65536}, DType: "float", RedOp: "sum",
		Config: nccl.Config{Cell: nccl.NoCell}, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Micros: 20,
		Selection: bench.SelectionDefault, Source: "run.log:10",
	}
	if change != nil {
		change(&s)
	}
	return s
}

func forced(a nccl.Algo, p nccl.Proto, channels int, micros float64) bench.Sample {
	return one(func(s *bench.Sample) {
		s.Algo, s.Proto, s.Channels, s.Micros, s.Selection = a, p, channels, micros, bench.SelectionForced
	})
}

// What is compared is what ran; of a sweep NCCL's default, or the configuration that is asked for.
func TestWhatIsCompared(t *testing.T) {
	byDefault := one(nil)
	ring, tree := forced(nccl.AlgoRing, nccl.ProtoLL, 8, 30), forced(nccl.AlgoTree, nccl.ProtoLL, 8, 40)
	ownChannels := ring
	ownChannels.Selection, ownChannels.Micros = bench.SelectionOwnChannels, 50
	tuned := forced(bench.Unknown, bench.Unknown, 0, 60)
	for _, c := range []struct {
		name          string
		before, after []bench.Sample
		options       Options
		ratio         float64 // 0: nothing is compared
		left          string
	}{
		{"defaults", []bench.Sample{byDefault}, []bench.Sample{byDefault}, Options{}, 1, ""},
		{"a default with one configuration", []bench.Sample{byDefault}, []bench.Sample{ring}, Options{}, 1.5, ""},
		{"a default with what a tuner chose", []bench.Sample{byDefault}, []bench.Sample{tuned}, Options{}, 3, ""},
		{"a tuner's choice that some logs tell", []bench.Sample{byDefault},
			[]bench.Sample{tuned, forced(nccl.AlgoRing, nccl.ProtoLL, 8, 60)}, Options{}, 3, ""},
		{"two sweeps", []bench.Sample{byDefault, ring, tree}, []bench.Sample{byDefault, ring}, Options{}, 1,
			"after: 1 of 1 forced configurations; NCCL's default is compared"},
		{"sweeps without a default", []bench.Sample{ring, tree}, []bench.Sample{ring}, Options{}, 0,
			"before: 2 of 2 forced configurations and no default, name one of them: ring/ll/8 tree/ll/8"},
		{"a configuration", []bench.Sample{byDefault, ring, tree}, []bench.Sample{byDefault, tree},
			Options{Config: &nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoLL}, Channels: 8}}, 1,
			"before: 2 of another configuration"},
		{"with NCCL's own channels", []bench.Sample{ring, ownChannels}, []bench.Sample{ownChannels},
			Options{Config: &nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}}}, 1,
			"before: 1 of another configuration, or channels that are not left to NCCL"},
		{"another communicator", []bench.Sample{byDefault}, []bench.Sample{one(func(s *bench.Sample) { s.Ranks = 4 })},
			Options{}, 0, "before: 1 of a size, data type, collective or communicator that after does not have"},
		{"no time", []bench.Sample{byDefault}, []bench.Sample{one(func(s *bench.Sample) { s.Micros = 0 })}, Options{},
			0, "after: 1 of size or time is 0"},
	} {
		table := Two(c.before, c.after, c.options)
		var left []string
		for _, l := range table.LeftOut {
			left = append(left, fmt.Sprintf("%s: %d of %s", l.Side, l.Rows, l.Reason))
		}
		if c.left != "" && !strings.Contains(strings.Join(left, "\n"), c.left) || c.left == "" && len(left) > 0 {
			t.Errorf("%s: left out: %q", c.name, left)
		}
		switch {
		case c.ratio == 0 && len(table.Sections) == 0:
		case len(table.Sections) != 1 || math.Abs(table.Sections[0].Rows[0].Ratio-c.ratio) > 1e-9:
			t.Errorf("%s: %+v", c.name, table.Sections)
		}
	}
}

// Runs are repetitions where there are several; of several times in one run the median counts.
func TestRepetitions(t *testing.T) {
	at := func(source string, micros float64) bench.Sample {
		return one(func(s *bench.Sample) { s.Source, s.Micros = source, micros })
	}
	within := []bench.Sample{at("a.log:1", 10), at("a.log:2", 11), at("a.log:3", 12)}
	several := append([]bench.Sample{at("b.log:1", 20)}, within...)
	// A log that holds two runs.
	first, second := &bench.Setup{NCCL: "2.28.9"}, &bench.Setup{NCCL: "2.28.9"}
	two := []bench.Sample{at("c.log:1", 10), at("c.log:9", 10)}
	two[0].Setup, two[1].Setup = first, second
	for _, c := range []struct {
		before, after []bench.Sample
		want          [2]int
		micros        float64 // before
	}{
		{within, within, [2]int{3, 3}, 11},
		{several, within, [2]int{2, 3}, math.Sqrt(11 * 20)},
		{several, several, [2]int{2, 2}, math.Sqrt(11 * 20)},
		{two, two, [2]int{2, 2}, 10},
	} {
		r := Two(c.before, c.after, Options{}).Sections[0].Rows[0]
		if r.Before.Reps != c.want[0] || r.After.Reps != c.want[1] || math.Abs(r.Before.Micros-c.micros) > 1e-9 {
			t.Errorf("%d and %d repetitions of %v us, want %v of %v", r.Before.Reps, r.After.Reps, r.Before.Micros,
				c.want, c.micros)
		}
	}
}

// Runs that their logs show to have alternated are compared pair by pair, others are not.
func TestTurnsByTheClock(t *testing.T) {
	runs := func(minutes ...int) (all []bench.Sample) {
		for i, m := range minutes {
			all = append(all, one(func(s *bench.Sample) {
				s.Setup, s.Source, s.Micros = &bench.Setup{Time: fmt.Sprintf("2026-05-04 10:%02d:00", m)},
					fmt.Sprintf("%d.log:1", i), 20+float64(m)
			}))
		}
		return all
	}
	for _, c := range []struct {
		before, after []bench.Sample
		paired        bool
		note          string
	}{
		{runs(0, 2, 4, 6), runs(1, 3, 5, 7), true, "pair by pair"},
		{runs(4, 0, 6, 2), runs(5, 1, 7, 3), true, "pair by pair"}, // whatever the order of the files
		{runs(0, 3, 4, 7), runs(1, 2, 5, 6), true, "pair by pair"},
		{runs(0, 1, 2, 3), runs(4, 5, 6, 7), false, "all runs of one side began before those of the other"},
		{runs(0, 1, 4, 6), runs(2, 3, 5, 7), false, ""},
		{runs(0, 2, 4), runs(1, 3, 5), false, ""},
		{runs(0, 2, 4, 6), runs(0, 2, 4, 6), false, ""},
		{runs(0, 2, 4, 6), []bench.Sample{one(nil)}, false, ""},
	} {
		table := Two(c.before, c.after, Options{})
		if table.Sections[0].Paired != c.paired || !strings.Contains(strings.Join(table.Notes, "\n"), c.note) {
			t.Errorf("%v: %q", table.Sections[0].Paired, table.Notes)
		}
		// A drift of 5 % a minute: not between pairs, but between the first runs and the last ones.
		if test := table.Sections[0].Rows[0].test; test != nil && c.paired != (test.Variance < 0.001) {
			t.Errorf("%v: %+v", c.paired, test)
		}
	}
}

// What differs between the sides is said, and where it may be all of the difference, as a doubt.
func TestDifferences(t *testing.T) {
	with := func(setup bench.Setup) []bench.Sample {
		return []bench.Sample{one(func(s *bench.Sample) { s.Setup = &setup })}
	}
	table := Two(with(bench.Setup{NCCL: "2.27.3", GPU: "H100", Hosts: "a b"}),
		with(bench.Setup{NCCL: "2.29.2", GPU: "H200", Hosts: "a b", Tuner: "nccl-tuner-go"}), Options{})
	want := []Difference{{"NCCL", "2.27.3", "2.29.2"}, {"tuner", "none", "nccl-tuner-go"}, {"GPU", "H100", "H200"}}
	if fmt.Sprint(table.Differences) != fmt.Sprint(want) || fmt.Sprint(table.Common) != "[hosts a b]" ||
		!strings.Contains(table.Notes[0], "the sides differ in GPU: that may be all of the difference") {
		t.Errorf("%v %v %q", table.Differences, table.Common, table.Notes)
	}
	// Times under other options of nccl-tests are not compared; options that both sides have are.
	graph := bench.Setup{Options: "-t 1 -g 8 -n 20 -w 5 -G 10"}
	table = Two(with(bench.Setup{Options: "-t 1 -g 8 -n 20 -w 5"}), with(graph), Options{})
	if len(table.Sections) != 0 || !strings.Contains(fmt.Sprint(table.LeftOut), "other options of nccl-tests, which are "+
		"never compared: -t 1 -g 8 -n 20 -w 5, and after has -t 1 -g 8 -n 20 -w 5 -G 10") {
		t.Errorf("%+v", table)
	}
	table = Two(append(with(bench.Setup{Options: "-t 1 -g 8 -n 20 -w 5"}), with(graph)...), with(graph), Options{})
	if len(table.Sections) != 1 || table.Sections[0].Options != graph.Options || len(table.LeftOut) != 1 {
		t.Errorf("%+v", table)
	}
	table = Two(with(bench.Setup{}), with(bench.Setup{Variables: "NCCL_NVLS_ENABLE=0"}), Options{})
	if len(table.Sections) != 1 || !strings.Contains(table.Notes[0], "the sides differ in variables") {
		t.Errorf("%+v", table)
	}
	// A setting of which nothing tells whether it was set is compared with the same one only.
	qps := func(n string) []bench.Sample { return with(bench.Setup{Variables: "NCCL_IB_QPS_PER_CONNECTION=" + n}) }
	for _, c := range []struct {
		before, after []bench.Sample
		refused       string // empty: compared
	}{
		{qps("1"), qps("4"), ""},
		{qps("4?"), qps("4?"), ""},
		{qps("1?"), qps("4?"), "NCCL_IB_QPS_PER_CONNECTION=1?, and after has NCCL_IB_QPS_PER_CONNECTION=4? (tell tunefit " +
			"import what ran, by --with NCCL_IB_QPS_PER_CONNECTION=1, or --with NCCL_IB_QPS_PER_CONNECTION= if it was not " +
			"set, and"},
		{qps("4"), qps("4?"), "known settings, and after has NCCL_IB_QPS_PER_CONNECTION=4? (tell tunefit import what ran, by --with " +
			"NCCL_IB_QPS_PER_CONNECTION=4,"},
		{with(bench.Setup{Variables: "nvls?"}), []bench.Sample{one(nil)},
			"nvls?, and after has known settings (tell tunefit import what ran, by --default if NCCL chose, or --algo, and"},
	} {
		table := Two(c.before, c.after, Options{})
		if (len(table.Sections) == 0) != (c.refused != "") || !strings.Contains(fmt.Sprint(table.LeftOut), c.refused) {
			t.Errorf("%v: %+v", c.refused, table.LeftOut)
		}
	}
	// What one side does not tell is no difference.
	if table := Two(with(bench.Setup{NCCL: "2.27.3"}), []bench.Sample{one(nil)},
		Options{}); len(table.Differences) != 0 {
		t.Errorf("%v", table.Differences)
	}
}

// JSON holds what is printed: sizes of one data type only, unless all are asked for.
func TestJSON(t *testing.T) {
	var before, after []bench.Sample
	for _, b := range []uint64{1024, 1 << 20} {
		for _, place := range []bool{false, true} {
			s := one(func(s *bench.Sample) { s.Bytes, s.InPlace = b, place })
			before, after = append(before, s), append(after, s)
		}
	}
	before = append(before, one(func(s *bench.Sample) { s.Coll, s.Nodes, s.Ranks = nccl.CollBroadcast, 0, 0 }))
	after = append(after, one(func(s *bench.Sample) {
		s.Coll, s.Nodes, s.Ranks, s.BusBW, s.Simulated = nccl.CollBroadcast, 0, 0, 3.2768, true
	}))
	table := Two(before, after, Options{Names: [2]string{"default", "policy"}, Threshold: 0.01})
	data, err := json.Marshal(table)
	var back struct {
		Before Side
		Groups []struct{ Collective string }
		Sizes  int
		Notes  []string
	}
	if err != nil || json.Unmarshal(data, &back) != nil || len(back.Groups) != 2 || back.Sizes != 3 ||
		back.Before != (Side{"default", 1, 3}) || !slices.Contains(back.Notes, "1 time simulated, not measured") {
		t.Errorf("%v %s", err, data)
	}
	all := Two(before, after, Options{AllVariants: true})
	if len(all.Sections) != 3 {
		t.Errorf("%+v", all.Sections)
	}
	for _, g := range all.Sections { // by the ranks, or what the log says
		for _, r := range g.Rows {
			want := [2]float64{float64(r.Bytes) / 1e3 / r.Before.Micros * g.Coll.BusFactor(8), 0}
			want[1] = want[0]
			if g.Ranks == 0 {
				want = [2]float64{0, 3.2768}
			}
			if math.Abs(r.Before.BusBW-want[0]) > 1e-9 || math.Abs(r.After.BusBW-want[1]) > 1e-9 {
				t.Errorf("%s of %d: %v and %v GB/s, want %v", g.Coll, r.Bytes, r.Before.BusBW, r.After.BusBW, want)
			}
		}
	}
	if data, err = json.Marshal(Two(nil, nil, Options{})); err != nil || !strings.Contains(string(data), `"groups":[]`) ||
		strings.Contains(string(data), "geomean\"") {
		t.Errorf("%v %s", err, data)
	}
}

// A slowdown exceeds a threshold where its whole interval does, and of configurations that ran as often the first counts.
func TestExceedsAndRan(t *testing.T) {
	e := Estimate{Ratio: 1.1, Low: 1.05, High: 1.2, Verdict: Slower}
	if !e.Exceeds(0.04) || e.Exceeds(0.06) {
		t.Errorf("%+v exceeds 4 %%: %v, 6 %%: %v", e, e.Exceeds(0.04), e.Exceeds(0.06))
	}
	ring, tree := forced(nccl.AlgoRing, nccl.ProtoLL, 8, 30), forced(nccl.AlgoTree, nccl.ProtoLL, 8, 30)
	ring.Selection, tree.Selection = bench.SelectionDefault, bench.SelectionDefault
	for _, c := range []struct {
		ran  []bench.Sample
		want bench.Sample
	}{{[]bench.Sample{ring, tree}, tree}, {[]bench.Sample{tree, ring}, tree}, {[]bench.Sample{ring, tree, ring}, ring}} {
		table := Two(c.ran, c.ran, Options{})
		if got := table.Sections[0].Rows[0].Before.Ran.Config; got != c.want.Config {
			t.Errorf("%s ran, want %s", got, c.want.Config)
		}
	}
}
