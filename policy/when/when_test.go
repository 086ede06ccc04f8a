package when

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/expr-lang/expr/file"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// No text makes a condition panic, or fail without a place.
func FuzzCondition(f *testing.F) {
	for _, pattern := range []string{"../../configs/policies/*.csv", "../testdata/bad/when.csv"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, _ := os.ReadFile(file)
			for line := range strings.Lines(string(text)) {
				for cell := range strings.SplitSeq(line, ",") {
					f.Add(strings.Trim(cell, "\"\n"))
				}
			}
		}
	}
	f.Add(`64*KiB <= bytes < 1*MiB && coll in ["allreduce", "allgather"] or topo.intra == "NVL"`)
	f.Add(`min(bytes, ranks ** 2) % max(1, nodes) in 3..5 ? !topo.gdr : abs(-bytes_per_rank) / nvl_domains > 1.5`)
	envs := []Env{EnvOf(nccl.Comm{Nodes: 1, Ranks: 8}, 0, 0, "", nil),
		EnvOf(nccl.Comm{Nodes: 3, Ranks: 16}, 3, 0, "", &topo.Machine{Summary: topo.Summary{GPUs: 8, SM: 90, Arch: "x86_64",
			NVSwitch: true, IntraBW: 360, Intra: "NVL", GPUNIC: "PXB", GDR: true}})}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Compile(text)
		if (c == nil) == (err == nil) {
			t.Fatal("neither a condition nor an error, or both")
		}
		if err != nil {
			return
		}
		for _, env := range envs {
			for _, bytes := range []uint64{0, 1, 1 << 20, nccl.Inf} {
				env.SetCall(nccl.Call{Coll: nccl.CollAllGather, Bytes: bytes}, 1)
				if slices.ContainsFunc(c.Names, func(name string) bool { return env[name] == nil }) {
					continue
				}
				if _, err := c.Holds(env); err != nil && !errors.As(err, new(*file.Error)) {
					t.Fatalf("%s: %v", text, err)
				}
			}
		}
	})
}

// A long text is refused, so these are many that are as long as is allowed.
func BenchmarkWorstCondition(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) (err error) {
		for part := range slices.Chunk(text, maxBytes) {
			if _, wrong := Compile(string(part)); wrong != nil {
				err = wrong
			}
		}
		return err
	},
		hostile.Text{Unit: "0<x<"}, hostile.Text{Unit: "1<1<1+"}, hostile.Text{Unit: "not "}, hostile.Text{Unit: "max("},
		hostile.Text{Unit: "1?1:"}, hostile.Text{Unit: "topo."}, hostile.Text{Unit: "1 in [1,"}, hostile.Text{Unit: "let a=1;"},
		hostile.Text{Unit: "coll == 'x' && "}, hostile.Text{Unit: "filter(x, "}, hostile.Text{Unit: "1**"},
	)
}
