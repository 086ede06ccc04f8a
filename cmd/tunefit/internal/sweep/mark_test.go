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
	for coll := range nccl.Coll(nccl.NumColls) {
		key := fit.Key{Coll: coll, Comm: nccl.Comm{Nodes: 2, Ranks: 16}}
		for algo, proto := range nccl.Cells {
			want := nccl.Config{Cell: nccl.Cell{Algo: algo, Proto: proto}, Channels: 1 + 3*int(algo)}
			if !nccl.Offers(coll, want.Cell) {
				continue
			}
			mark := markOf(key, Measure, fit.Pass{want})
			got, err := bench.Read(strings.NewReader(mark+"\n: Test NCCL failure\n"), "x.log", bench.Options{})
			if err != nil || len(got.Failed) != 1 || got.Failed[0].Coll != coll || got.Failed[0].Comm != key.Comm ||
				got.Failed[0].Config != want {
				t.Errorf("%s: %v %+v, want %s", mark, err, got, want)
			}
		}
		for _, kind := range []Kind{Measure, Verify} {
			mark := markOf(key, kind, fit.Pass{fit.ByDefault})
			got, err := bench.Read(strings.NewReader(mark+"\n"+row), "tree.log", bench.Options{})
			if err != nil || len(got.Samples) != 1 || got.Assumed > 0 {
				t.Fatalf("%s: %v %+v", mark, err, got)
			}
			if s := got.Samples[0]; s.Coll != coll || s.Comm != key.Comm || s.Selection != bench.SelectionDefault ||
				s.Verify != (kind == Verify) {
				t.Errorf("%s is read as %+v", mark, s)
			}
		}
	}
}

// markOf is that of a run of one pass at one size.
func markOf(key fit.Key, kind Kind, pass fit.Pass) string {
	start := perfrun.Of(key, "", fit.Plan{Sizes: []uint64{1 << 20}}, []fit.Pass{pass}, 1)
	r := Run{of: &start, kind: kind, Sizes: start.Sizes}
	return r.mark()
}
