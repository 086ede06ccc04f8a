package lint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// No query gets a row as an answer that is reported as never reached, over all communicators,
// calls, sizes and sets of available cells that matter.
func TestShadowedRowsAnswerNoQuery(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 60
	}
	reported, free := 0, 0
	for seed := range seeds {
		text := randomPolicy(rand.New(rand.NewPCG(seed, 1)))
		p, err := policy.ReadCSV("random.csv", []byte(text))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		findings := Check("random.csv", []byte(text), Options{})
		reached := reachedByAnyQuery(p)
		for i, r := range p.Rules {
			said := slices.ContainsFunc(findings, func(f Diagnostic) bool {
				return f.Line == r.Line && (f.Rule == "shadowed" || f.Rule == "matches-nothing")
			})
			if said && reached[i] {
				t.Fatalf("seed %d: line %d is reached, and reported not to be\n%s", seed, r.Line, text)
			}
			if said {
				reported++
			} else {
				free++
			}
		}
	}
	if reported < int(seeds)/4 || free < int(seeds) {
		t.Errorf("%d rows reported, %d not: the files are too much alike", reported, free)
	}
}

// A row with a condition hides only rows with the same condition; other rows may hide it.
func TestConditionsHide(t *testing.T) {
	for conditions, hidden := range map[[2]string]bool{{"", ""}: true, {"", "bytes > 1"}: true,
		{"bytes > 1", ""}: false, {"bytes > 1", "bytes > 1"}: true, {"bytes > 1", "bytes > 2"}: false} {
		text := "collective,max_bytes,algorithm,when\nallreduce,,ring," + conditions[0] + "\nallreduce,1024,ring," +
			conditions[1] + "\n"
		said := slices.ContainsFunc(Check("p.csv", []byte(text), Options{}), func(f Diagnostic) bool {
			return f.Rule == "shadowed"
		})
		if said != hidden {
			t.Errorf("conditions %q: reported: %v", conditions, said)
		}
	}
}

// randomPolicy has few values, so that rows meet often.
func randomPolicy(rng *rand.Rand) string {
	either := func(values ...string) string { return values[rng.IntN(len(values))] }
	var b strings.Builder
	b.WriteString(
		"collective,algorithm,protocol,nodes,ranks,ranks_per_node,pipe_ops,reg_buff,min_bytes,max_bytes,min_bytes_per_rank,max_bytes_per_rank\n")
	perRank := rng.IntN(2) == 0
	for range 2 + rng.IntN(7) {
		nodes, ranks, perNode := either("-1", "-1", "1", "2"), either("-1", "-1", "2", "4"), "-1"
		if nodes == "-1" || ranks == "-1" {
			perNode = either("-1", "-1", "1", "2")
		}
		span := func(limited bool) (string, string) {
			if !limited {
				return "", ""
			}
			low := rng.IntN(12)
			return fmt.Sprint(low), either(fmt.Sprint(low+rng.IntN(8)), "inf")
		}
		min, max := span(rng.IntN(4) > 0)
		minPerRank, maxPerRank := span(perRank && rng.IntN(3) == 0)
		algorithm, protocol := either("ring", "ring", "tree", "!ring", "-1", "default"), either("ll", "-1", "-1", "!ll")
		if algorithm == "default" {
			protocol = ""
		}
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s\n", either("allreduce", "allreduce", "any"), algorithm,
			protocol, nodes, ranks, perNode,
			either("-1", "-1", "-1", "1"), either("-1", "-1", "-1", "0", "1"), min, max, minPerRank, maxPerRank)
	}
	return b.String()
}

// reachedByAnyQuery asks about every communicator up to some size and a large one, at every size
// that matters there, with one cell available at a time.
func reachedByAnyQuery(p *policy.Policy) []bool {
	reached := make([]bool, len(p.Rules))
	var comms []policy.Comm
	for ranks := 2; ranks <= 13; ranks++ {
		for nodes := 1; nodes <= ranks; nodes++ {
			comms = append(comms, policy.Comm{Comm: nccl.Comm{Nodes: nodes, Ranks: ranks}})
		}
	}
	for _, ranks := range []int{22, 34, 46} { // more than any size but inf; also with one and two ranks per node
		comms = append(comms, policy.Comm{Comm: nccl.Comm{Nodes: 1, Ranks: ranks}},
			policy.Comm{Comm: nccl.Comm{Nodes: 2, Ranks: ranks}}, policy.Comm{Comm: nccl.Comm{Nodes: 3, Ranks: ranks}},
			policy.Comm{Comm: nccl.Comm{Nodes: ranks, Ranks: ranks}},
			policy.Comm{Comm: nccl.Comm{Nodes: ranks / 2, Ranks: ranks}})
	}
	tables := make([][]float32, 0, 6)
	// tree, ring and nvls with ll and simple: one of every kind that randomPolicy tells apart
	for _, available := range []int{0, 2, 3, 5, 12, 14} {
		micros := slices.Repeat([]float32{-1}, 21)
		micros[available] = 10
		tables = append(tables, micros)
	}
	for _, comm := range comms {
		v := p.For(comm)
		sizes := []uint64{1 << 40}
		for _, r := range p.Rules {
			for _, n := range []uint64{r.Bytes.Min, r.Bytes.Max, r.BytesPerRank.Min * uint64(comm.Ranks),
				(r.BytesPerRank.Max+1)*uint64(comm.Ranks) - 1} {
				sizes = append(sizes, n, n+1)
			}
		}
		slices.Sort(sizes)
		for _, bytes := range slices.Compact(sizes) {
			for _, coll := range []nccl.Coll{nccl.CollAllReduce, nccl.CollBroadcast} {
				for _, pipeOps := range []int{1, 9} {
					for regBuff := -1; regBuff <= 1; regBuff++ {
						for _, micros := range tables {
							d := v.Decide(policy.Query{Call: nccl.Call{Coll: coll, Bytes: bytes}, PipeOps: pipeOps,
								RegBuff: regBuff, Costs: nccl.Costs{Micros: micros, NumProto: 3}})
							if d.Rule >= 0 {
								reached[d.Rule] = true
							}
						}
					}
				}
			}
		}
	}
	return reached
}
