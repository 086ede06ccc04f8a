package sweep

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// The first line of a log tells what its run was to measure, whatever the rest says and the file is called.
func TestMarkTellsWhatWasAsked(t *testing.T) {
	const row = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n" +
		"     1048576        262144     float     sum      -1    61.90   16.94   29.65      0\n"
	sizes := []uint64{1 << 20}
	for coll := range nccl.Coll(nccl.NumColls) {
		key := fit.Key{Coll: coll, Comm: nccl.Comm{Nodes: 2, Ranks: 16}}
		for algo, proto := range nccl.Cells {
			want := nccl.Config{Cell: nccl.Cell{Algo: algo, Proto: proto}, Channels: 1 + 3*int(algo)}
			if !nccl.Offers(coll, want.Cell) {
				continue
			}
			start := perfrun.Of(key, fit.RunOf(want, sizes))
			got, err := bench.Read(strings.NewReader(mark(&start, Measure)+"\n: Test NCCL failure\n"), "x.log", bench.Options{})
			if err != nil || len(got.Failed) != 1 || got.Failed[0].Coll != coll || got.Failed[0].Comm != key.Comm ||
				got.Failed[0].Config != want {
				t.Errorf("%s: %v %+v, want %s", mark(&start, Measure), err, got, want)
			}
		}
		for _, kind := range []Kind{Measure, Verify} {
			start := perfrun.Of(key, fit.Run{Sizes: sizes})
			got, err := bench.Read(strings.NewReader(mark(&start, kind)+"\n"+row), "tree.log", bench.Options{})
			if err != nil || len(got.Samples) != 1 || got.Assumed > 0 {
				t.Fatalf("%s: %v %+v", mark(&start, kind), err, got)
			}
			if s := got.Samples[0]; s.Coll != coll || s.Comm != key.Comm || s.Selection != bench.SelectionDefault ||
				s.Verify != (kind == Verify) {
				t.Errorf("%s is read as %+v", mark(&start, kind), s)
			}
		}
	}
}
