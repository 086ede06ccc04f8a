package fit

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Channels that were measured only under NCCL_MIN_NCHANNELS are said to need it, in rows and model; what any run had
// without is not, nor is anything where the sweep tells nothing.
func TestFlooredChannels(t *testing.T) {
	m := smallMachine()
	sweep := func(change func(*bench.Sample)) []bench.Sample {
		all := m.sweep(2, 7)
		for i := range all {
			s := &all[i]
			if s.Selection == bench.SelectionDefault { // slow, and nobody knows what it was
				s.Algo, s.Proto, s.Channels, s.Micros = bench.Unknown, bench.Unknown, 0, 2*s.Micros
			} else {
				change(s)
			}
		}
		return all
	}
	set := map[int]*bench.Setup{}
	for _, c := range m.channels {
		set[c] = &bench.Setup{MinChannels: strconv.Itoa(c)}
	}
	forced := func(s *bench.Sample) { s.Setup = set[s.Channels] }
	one := bench.Sample{Call: nccl.Call{Coll: nccl.CollBroadcast, Bytes: 1024}, Comm: m.Comm, Micros: 10,
		DType: "float", Config: nccl.Config{Cell: nccl.Cell{Proto: nccl.ProtoSimple}}}
	with := func(s bench.Sample, algo nccl.Algo, channels int, by bench.Selection, setup *bench.Setup) bench.Sample {
		s.Algo, s.Channels, s.Selection, s.Setup = algo, channels, by, setup
		return s
	}
	for name, test := range map[string]struct {
		samples []bench.Sample
		want    int // the most channels that are said to need a floor; 0: none
	}{
		"told nothing":               {sweep(func(*bench.Sample) {}), 0},
		"with a setup, told nothing": {sweep(func(s *bench.Sample) { s.Setup = &bench.Setup{GPU: "X"} }), 0},
		"all under a floor":          {sweep(forced), 32},
		"some collective's default has 32": {append(sweep(forced),
			with(one, nccl.AlgoRing, 32, bench.SelectionDefault, nil)), 0},
		"and 16 only":           {append(sweep(forced), with(one, nccl.AlgoRing, 16, bench.SelectionDefault, nil)), 32},
		"32 of NVLS are others": {append(sweep(forced), with(one, nccl.AlgoNVLS, 32, bench.SelectionDefault, nil)), 32},
		"a tuner had 32": {append(sweep(forced), with(one, nccl.AlgoTree, 32, bench.SelectionForced,
			&bench.Setup{Tuner: "x"})), 0},
		"32 under a floor of 4": {append(sweep(forced), with(one, nccl.AlgoTree, 32, bench.SelectionForced,
			&bench.Setup{MinChannels: "4"})), 0},
		"on other nodes": {append(sweep(forced),
			with(bench.Sample{Call: nccl.Call{Coll: m.Coll, Bytes: 1024}, Comm: nccl.Comm{Nodes: 1, Ranks: 8},
				Micros: 10}, nccl.AlgoTree, 32, bench.SelectionForced, nil)), 32},
		"under NCCL_MIN_CTAS": {sweep(func(s *bench.Sample) { s.Setup = &bench.Setup{MinCTAs: "32"} }), 32},
	} {
		file, _ := Fit(pooled(test.samples), Options{})
		compiled := mustCompile(t, file)
		rows := Rows(compiled)
		var text bytes.Buffer
		if err := WriteRows(&text, rows, nccl.AnyRelease); err != nil || len(rows) == 0 {
			t.Fatalf("%s: %d rows, %v", name, len(rows), err)
		}
		if got := nccl.ReadRemarks(text.Bytes()).Floors; got != (nccl.Floors{Channels: test.want}) {
			t.Errorf("%s: rows need %v, want %d:\n%s", name, got, test.want, &text)
		}
		if got := compiled.Floors(); got != (nccl.Floors{Channels: test.want}) {
			t.Errorf("%s: the model needs %v, want %d", name, got, test.want)
		}
		if written, err := marshalModel(file); err != nil ||
			strings.Contains(string(written), "floored") != (test.want > 0) {
			t.Errorf("%s: %v, the model's file should say so: %t", name, err, test.want > 0)
		}
	}
}

// NCCL_MIN_NCHANNELS does not raise the channels of NVLS, NCCL_MIN_CTAS does; neither makes another machine of one.
func TestFlooredNVLS(t *testing.T) {
	for _, c := range []struct {
		algo  nccl.Algo
		setup bench.Setup
		want  bool
	}{
		{nccl.AlgoRing, bench.Setup{MinChannels: "16"}, true}, {nccl.AlgoRing, bench.Setup{MinCTAs: "16"}, true},
		{nccl.AlgoNVLS, bench.Setup{MinChannels: "16"}, false}, {nccl.AlgoNVLS, bench.Setup{MinCTAs: "16"}, true},
		{nccl.AlgoNVLSTree, bench.Setup{MinChannels: "16"}, false},
		{nccl.AlgoNVLSTree, bench.Setup{MinCTAs: "16"}, true},
	} {
		s := bench.Sample{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024}, Comm: nccl.Comm{Nodes: 1, Ranks: 8},
			Micros: 10, Config: nccl.Config{Cell: nccl.Cell{Algo: c.algo, Proto: nccl.ProtoSimple}, Channels: 16},
			Selection: bench.SelectionForced}
		plain := s
		s.Setup, plain.Channels = &c.setup, 4
		set := pooled([]bench.Sample{s, plain})
		if got := set.Groups[0].floored[nccl.Config{Cell: nccl.Cell{Algo: c.algo, Proto: nccl.ProtoSimple},
			Channels: 16}]; got != c.want || len(set.Machines) != 1 {
			t.Errorf("%v under %+v: %t, want %t; machines %v", c.algo, c.setup, got, c.want, set.Machines)
		}
	}
}

// A row with channels that need a floor stands only where the model chooses these, not for a neighbour that is nearly
// as fast.
func TestFlooredRowsStandForThemselves(t *testing.T) {
	var samples []bench.Sample
	for i := range 11 {
		bytes := uint64(1<<10) << i
		s := bench.Sample{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: bytes}, Comm: nccl.Comm{Nodes: 1, Ranks: 8},
			Config: nccl.Config{Cell: nccl.NoCell}, Selection: bench.SelectionDefault, Micros: 100}
		samples = append(samples, s, s)
		s.Selection, s.Algo, s.Proto = bench.SelectionForced, nccl.AlgoRing, nccl.ProtoSimple
		flat := s
		s.Channels, s.Micros = 16, 40*math.Pow(1.02, float64(i))
		flat.Channels, flat.Micros, flat.Setup = 32, 40.6, &bench.Setup{MinChannels: "32"}
		samples = append(samples, s, s, flat, flat)
	}
	file, _ := Fit(pooled(samples), Options{})
	rows := Rows(mustCompile(t, file))
	if len(rows) != 2 || rows[0].Channels != 16 || rows[0].Floored || rows[1].Channels != 32 || !rows[1].Floored {
		t.Errorf("%+v, want one row of 16 channels and one of 32, which needs a floor", rows)
	}
}
