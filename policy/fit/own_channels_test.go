package fit

import (
	"bytes"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A sweep of the library's own channel counts gives the same policy whether they are
// known and marked, known and not marked, or not known. Those that were asked for stay.
func TestOwnChannels(t *testing.T) {
	m := smallMachine()
	m.channels = []int{32}
	own := func(bytes uint64) int { return max(1, min(32, int(bytes>>14))) }
	rows := func(change func(*bench.Sample)) string {
		all := m.sweep(2, 7)
		for i := range all {
			s := &all[i]
			s.Channels = own(s.Bytes)
			change(s)
		}
		file, _ := Fit(pooled(all), Options{})
		var text bytes.Buffer
		if err := WriteRows(&text, Rows(mustCompile(t, file)), nccl.AnyRelease); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	unknown := rows(func(s *bench.Sample) { s.Channels = 0 })
	if len(unknown) == 0 || bytes.Count([]byte(unknown), []byte("\n")) < 2 {
		t.Fatalf("no rows:\n%s", unknown)
	}
	if got := rows(func(s *bench.Sample) {
		if s.Selection == bench.SelectionForced {
			s.Selection = bench.SelectionOwnChannels
		}
	}); got != unknown {
		t.Errorf("told:\n%s\nnot known:\n%s", got, unknown)
	}
	if got := rows(func(*bench.Sample) {}); got != unknown {
		t.Errorf("recognised:\n%s\nnot known:\n%s", got, unknown)
	}
}

func TestWhoseChannels(t *testing.T) {
	const asked, own = bench.SelectionForced, bench.SelectionOwnChannels
	type row struct {
		bytes    uint64
		channels int
		by       bench.Selection
	}
	for name, test := range map[string]struct {
		rows []row
		want []int // channel counts of the points, in order
	}{
		"told":                {[]row{{1024, 2, own}, {2048, 2, own}}, []int{0, 0}},
		"told, several":       {[]row{{1024, 2, own}, {1024, 4, own}, {2048, 2, own}}, []int{0, 0}},
		"it grows":            {[]row{{1024, 2, asked}, {2048, 2, asked}, {4096, 8, asked}}, []int{0, 0, 0}},
		"it does not change":  {[]row{{1024, 2, asked}, {2048, 2, asked}}, []int{2, 2}},
		"it falls":            {[]row{{1024, 8, asked}, {2048, 2, asked}}, []int{2, 8}},
		"several at one size": {[]row{{1024, 2, asked}, {2048, 2, asked}, {2048, 8, asked}}, []int{2, 2, 8}},
		"some were asked for": {[]row{{1024, 2, own}, {1024, 2, asked}, {2048, 8, own}}, []int{2, 8}},
		"not known":           {[]row{{1024, 0, asked}, {2048, 0, asked}}, []int{0, 0}},
	} {
		p := NewPool()
		for _, r := range test.rows {
			p.Add(&bench.Sample{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: r.bytes},
				Comm:      nccl.Comm{Nodes: 1, Ranks: 8},
				Config:    nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}, Channels: r.channels},
				Selection: r.by, Micros: 10})
		}
		for range 2 { // a pool may be asked again
			points := p.Set().Groups[0].Points
			ok := len(points) == len(test.want)
			for i := 0; ok && i < len(points); i++ {
				ok = points[i].Config.Channels == test.want[i]
			}
			if !ok {
				t.Errorf("%s: %+v, want channels %v", name, points, test.want)
			}
		}
	}
}

// Counts that our library asked for are no counts of NCCL's own, also where there is one for each size and they rise.
func TestAskedChannelsAreNotNCCLsOwn(t *testing.T) {
	for tuner, want := range map[string]int{"": 1, "nccl-tuner-go 0.1.0": 4} {
		var samples []bench.Sample
		for i := range 4 {
			samples = append(samples, bench.Sample{
				Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1 << (20 + i)}, Comm: nccl.Comm{Nodes: 1, Ranks: 8},
				Config:    nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}, Channels: 2 << i},
				Selection: bench.SelectionForced, Micros: 10, Setup: &bench.Setup{Tuner: tuner}})
		}
		if got := len(pooled(samples).Groups[0].Configs()); got != want {
			t.Errorf("tuner %q: %d configurations, want %d", tuner, got, want)
		}
	}
}
