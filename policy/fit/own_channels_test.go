package fit

import (
	"bytes"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A sweep of NCCL's own channel counts gives the same policy whether they are known or not.
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
