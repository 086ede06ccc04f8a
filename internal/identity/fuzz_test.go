package identity

import (
	"fmt"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// Names come from other processes' records.
func FuzzParse(f *testing.F) {
	f.Add(New())
	f.Add(WithRank(New(), 7))
	f.Add("x host -5 18446744073709551616 0")
	f.Add("x host 1 0 0 \x00 rank=-1 rank=9")
	f.Fuzz(func(t *testing.T, name string) {
		if rank := ParseRank(name); rank < -1 {
			t.Errorf("%q has rank %d", name, rank)
		} else if again := ParseRank(WithRank("x", rank)); again != rank {
			t.Errorf("rank %d comes back as %d", rank, again)
		}
		p, err := Parse(name)
		if err != nil {
			return
		}
		again, err := Parse(fmt.Sprintf("x %s %d %d %d %s", p.Host, p.PID, p.space, p.Started, p.boot))
		if err != nil || again != p {
			t.Errorf("%q: %+v comes back as %+v, %v", name, p, again, err)
		}
		if p.State() != Unknown && (p.PID < 1 || p.boot == "") {
			t.Errorf("%q: a process that cannot be told apart is %s", name, p.State())
		}
	})
}

func BenchmarkWorstParse(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		ParseRank(string(text))
		_, err := Parse(string(text))
		return err
	},
		hostile.Text{Unit: " rank="}, hostile.Text{Head: "x host ", Unit: "1"}, hostile.Text{Head: "x host ", Unit: " "},
		hostile.Text{Head: "x host 1 ", Unit: "\n"},
	)
}
