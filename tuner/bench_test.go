package tuner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
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
		b.Run(mode, func(b *testing.B) {
			p := New(env(EnvConfigFile, file, EnvReload, mode))
			id := uint64(os.Getpid()) << 32
			var open []*Comm
			for b.Loop() {
				id++
				c, err := p.Open(CommInfo{ID: id, Ranks: 8, Nodes: 1, ABI: 7, Counter: &agree.Counter{}}, Log{})
				if err != nil {
					b.Fatal(err)
				}
				open = append(open, c)
			}
			for _, c := range open {
				c.Close()
			}
		})
	}
}
