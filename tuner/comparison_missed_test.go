package tuner

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// A rank that asks for a comparison says so if the first slot, whose rank compares, does not,
// whichever of the two comes first.
func TestComparisonMissed(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second []string // variables of the ranks 0 and 1
		order         [2]int
		want          string // of rank 1's warning; "": none
	}{
		{"on rank 1 only", nil, []string{EnvCompare, "nccl"}, [2]int{0, 1},
			"NCCL_TUNER_COMPARE has no effect: it is set on this rank, and not on the rank of the first slot"},
		{"rank 1 comes first", nil, []string{EnvCompare, "nccl"}, [2]int{1, 0}, "NCCL_TUNER_COMPARE has no effect"},
		{"another one of the two", []string{EnvCompare, "nccl"}, []string{EnvCanary, "1"}, [2]int{0, 1},
			"NCCL_TUNER_CANARY has no effect"},
		{"on both", []string{EnvCompare, "nccl"}, []string{EnvCompare, "nccl"}, [2]int{1, 0}, ""},
		{"on rank 0 only", []string{EnvCompare, "nccl"}, nil, [2]int{0, 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "p.csv")
			write(t, file, rows(1))
			said := make(chan string, 10) // warnings of rank 1
			lastID++
			var comms [2]*Comm
			for _, rank := range c.order {
				own := append([][]string{c.first, c.second}[rank], EnvConfigFile, file, EnvRendezvous, filepath.Join(dir, "meet"))
				log := Log{Emit: func(level Level, _ string, _ int, text string) {
					if level == Warn && strings.Contains(text, " has no effect") {
						said <- fmt.Sprintf("rank %d: %s", rank, text)
					}
				}}
				info := CommInfo{ID: 0xabc00 + lastID, Rank: rank, Ranks: 2, Nodes: 1, ABI: 7, Counter: &agree.Counter{}}
				comm, err := New(env(own...)).Open(info, log)
				if err != nil {
					t.Fatal(err)
				}
				defer comm.Close()
				comms[rank] = comm
			}
			if c.want == "" {
				first, err := comms[1].member.Owner(t.Context(), 0)
				if err != nil || first == "" {
					t.Fatal(first, err)
				}
				comms[1].logMissed(first) // what the rank does in the background
				if len(said) > 0 {
					t.Error(<-said)
				}
				return
			}
			select {
			case text := <-said:
				if !strings.HasPrefix(text, "rank 1: ") || !strings.Contains(text, c.want) {
					t.Error(text)
				}
			case <-time.After(time.Minute):
				t.Error("it says nothing")
			}
		})
	}
}
