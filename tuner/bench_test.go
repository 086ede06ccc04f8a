package tuner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// A communicator's init, but for the first one of a process.
func BenchmarkOpen(b *testing.B) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "allreduce,%d,%d,ring,simple,8,1,8\n", i*1000, i*1000+999)
	}
	file := filepath.Join(b.TempDir(), "p.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	for _, mode := range reloads {
		b.Run(mode+"/warm", func(b *testing.B) { openMany(b, file, mode, 0) })
		// A job does other things between two communicators: threads and caches go to sleep.
		b.Run(mode+"/cold", func(b *testing.B) { openMany(b, file, mode, 50*time.Millisecond) })
	}
}

func openMany(b *testing.B, file, mode string, rest time.Duration) {
	p := New(env(EnvConfigFile, file, EnvReload, mode))
	id := uint64(os.Getpid()) << 32
	var open []*Communicator
	first, err := p.Open(CommInfo{ID: id, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, ABI: 7, Counter: &agree.Counter{}},
		telemetry.Log{})
	if err != nil {
		b.Fatal(err)
	}
	defer first.Close()
	for b.Loop() {
		if rest > 0 {
			b.StopTimer()
			time.Sleep(rest) // what a benchmark of communicators at rest asks for
			b.StartTimer()
		}
		id++
		c, err := p.Open(CommInfo{ID: id, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, ABI: 7, Counter: &agree.Counter{}},
			telemetry.Log{})
		if err != nil {
			b.Fatal(err)
		}
		open = append(open, c)
	}
	b.StopTimer()
	for _, c := range open {
		c.Close()
	}
}
