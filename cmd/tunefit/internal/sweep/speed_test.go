package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// Going on with a sweep of so many runs, and deciding on the next batch in it. The log of a run has NCCL's lines of
// each call.
func BenchmarkResume(b *testing.B) {
	for _, runs := range []int{100, 10000} {
		dir := b.TempDir()
		o := optionsOf(b, dir, runs)
		b.Run(fmt.Sprintf("%d runs", runs), func(b *testing.B) {
			var next time.Duration
			for b.Loop() {
				s, err := Open(o)
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if _, err := s.next(o.Keys[0]); err != nil {
					b.Fatal(err)
				}
				_, _ = s.ahead()
				next += time.Since(began)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(next.Milliseconds())/float64(b.N), "ms/next")
		})
	}
}

// optionsOf are those of a sweep with many runs, 50 of each subject.
func optionsOf(tb testing.TB, dir string, runs int) Options {
	tb.Helper()
	choices := &perfrun.Choices{Algos: []string{"ring", "tree"}, Protos: []string{"ll", "ll128", "simple"},
		Channels: []int{1, 2, 4, 8, 16, 24, 32, 40, 48}}
	if err := choices.Check(); err != nil {
		tb.Fatal(err)
	}
	launcher, err := launch.New(launch.Options{With: launch.Local})
	if err != nil {
		tb.Fatal(err)
	}
	o := Options{Dir: dir, Choices: choices, Launcher: launcher, Repetitions: 1, Silence: time.Hour,
		Say: func(string, ...any) {}}
	for b := uint64(1 << 10); b <= 1<<30; b *= 2 {
		o.Sizes = append(o.Sizes, b)
	}
	for k := range max(1, runs/50) {
		o.Keys = append(o.Keys, fit.Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 2 + k}})
	}
	s, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Close()
	for id := 1; id <= runs; id++ {
		key := o.Keys[(id-1)/50%len(o.Keys)]
		c := fit.ByDefault
		if n := (id - 1) % 50; n > 0 {
			c = nccl.Config{Cell: nccl.Cell{Algo: nccl.Algo(n % 2), Proto: nccl.Proto(n / 2 % 3)},
				Channels: choices.Channels[n/6%9]}
		}
		start := perfrun.Of(key, "", fit.Plan{Sizes: o.Sizes}, []fit.Pass{slices.Repeat(fit.Pass{c}, len(o.Sizes))}, id)
		run := Run{ID: id, Batch: id - 1, Sizes: o.Sizes, Log: fmt.Sprintf("logs/%05d-%s.log", id, start.Name)}
		for _, l := range []line{{Batch: &Batch{Kind: Measure, Starts: []perfrun.Start{start}}},
			{Begin: &run}, {End: &ending{id, End{Seconds: 6, Outcome: Measured}}}} {
			if err := s.journal.write(l); err != nil {
				tb.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, run.Log), []byte(logOf(key, o.Sizes, c.Channels)), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return o
}

func logOf(key fit.Key, sizes []uint64, channels int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "# nThread 1 nGpus %d minBytes 1024 maxBytes 1073741824 step: 2(factor)\n", key.Ranks)
	fmt.Fprintf(&s, "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "+
		"algbw   busbw #wrong\n")
	factor := key.Coll.BusFactor(float64(key.Ranks))
	for i, b := range sizes {
		for range 42 {
			fmt.Fprintf(&s, "vm:1:1 [0] NCCL INFO AllReduce: %d Bytes -> Algo RING proto LL channel{Lo..Hi}={0..31}\n",
				b)
		}
		us := 20 + float64(b)/1e5 + float64(channels*i%7)
		fmt.Fprintf(&s,
			"%12d %13d     float     sum      -1 %8.2f   16.94   %.2f      0 %8.2f   16.94   %.2f      0\n", b,
			b/4, us, 16.94*factor, us, 16.94*factor)
	}
	s.WriteString("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5\n#\n")
	return s.String()
}
