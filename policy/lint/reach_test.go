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

// A row is reported as never reached exactly if no query gets it as an answer,
// over all communicators, calls, sizes and sets of available cells that matter.
func TestShadowedAgreesWithAllQueries(t *testing.T) {
	seeds := uint64(400)
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
			said := slices.ContainsFunc(findings, func(f Finding) bool {
				return f.Line == r.Line && (f.Rule == shadowed || f.Rule == duplicate || f.Rule == matchesNothing)
			})
			if said == reached[i] {
				t.Fatalf("seed %d: line %d reached: %v, reported: %v\n%s", seed, r.Line, reached[i], said, text)
			}
			if said {
				reported++
			} else {
				free++
			}
		}
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Rule == notExamined }) {
			t.Fatalf("seed %d: given up on\n%s", seed, text)
		}
	}
	if reported < int(seeds)/4 || free < int(seeds) {
		t.Errorf("%d rows reported, %d not: the files are too much alike", reported, free)
	}
}

// Rows that are free only on communicators that others do not name.
func TestReachedOnFewCommunicators(t *testing.T) {
	const header = "collective,algorithm,nodes,ranks,min_bytes,max_bytes,min_bytes_per_rank,max_bytes_per_rank\n"
	for rows, reached := range map[string]bool{
		"allreduce,ring,1,,,,,\nallreduce,ring,2,,,,,\nallreduce,ring,,2,,,,\n":      false, // on 1 node or on 2
		"allreduce,ring,1,,,,,\nallreduce,ring,2,,,,,\nallreduce,ring,,3,,,,\n":      true,  // on 3
		"allreduce,tree,,,,,0,9\nallreduce,ring,,,6,6,3,3\n":                         true,  // 6 bytes among 2 ranks
		"allreduce,ring,,2,,,,\nallreduce,tree,,,,,0,9\nallreduce,ring,,,6,6,3,3\n":  false, // which have a row
		"allreduce,ring,,2,,,,\nallreduce,tree,,,,,0,9\nallreduce,ring,,,6,6,2,3\n":  true,  // 3 ranks
		"allreduce,ring,,,0,99,,\nallreduce,ring,,,,,1,\nallreduce,ring,,,,,,\n":     true,  // 100 bytes among 101
		"allreduce,ring,,,0,99,,\nallreduce,ring,,,,,0,8\nallreduce,ring,,,9,50,,\n": false,
		"allreduce,ring,,,0,9,,\nallreduce,ring,,,,,,5\nallreduce,ring,,,0,11,,\n":   false, // 10 bytes are 5 each at most
		"allreduce,ring,,,0,9,,\nallreduce,ring,,,,,,5\nallreduce,ring,,,0,12,,\n":   true,  // 12 bytes among 2
	} {
		line := 1 + strings.Count(rows, "\n")
		said := slices.ContainsFunc(Check("p.csv", []byte(header+rows), Options{}), func(f Finding) bool { return f.Line == line && f.Rule == shadowed })
		if said == reached {
			t.Errorf("%sreached: %v, reported: %v", rows, reached, said)
		}
	}
}

// A row with a condition may not match, so that it hides nothing.
func TestConditionsHideNothing(t *testing.T) {
	p, err := policy.ReadCSV("p.csv", []byte("allreduce,0,inf,ring,ll,-1,-1,-1\nallreduce,0,1024,ring,ll,-1,-1,-1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, conditional := range []bool{false, true} {
		rows := []*row{newRow(&p.Rules[0], conditional), newRow(&p.Rules[1], true)}
		a := newReach(rows)
		if a.reached(rows[0]); a.reached(rows[1]) != conditional {
			t.Errorf("behind a conditional row: %v, but reached: %v", conditional, !conditional)
		}
	}
}

// randomPolicy has few values, so that rows meet often.
func randomPolicy(rng *rand.Rand) string {
	either := func(values ...string) string { return values[rng.IntN(len(values))] }
	var b strings.Builder
	b.WriteString("collective,algorithm,protocol,nodes,ranks,ranks_per_node,pipe_ops,reg_buff,min_bytes,max_bytes,min_bytes_per_rank,max_bytes_per_rank\n")
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
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s\n", either("allreduce", "allreduce", "any"), algorithm, protocol, nodes, ranks, perNode,
			either("-1", "-1", "-1", "1"), either("-1", "-1", "-1", "0", "1"), min, max, minPerRank, maxPerRank)
	}
	return b.String()
}

// reachedByAnyQuery asks about every communicator up to some size and a large one,
// at every size that matters there, with one cell available at a time.
func reachedByAnyQuery(p *policy.Policy) []bool {
	reached := make([]bool, len(p.Rules))
	var comms []policy.Comm
	for ranks := 2; ranks <= 13; ranks++ {
		for nodes := 1; nodes <= ranks; nodes++ {
			comms = append(comms, policy.Comm{Nodes: nodes, Ranks: ranks})
		}
	}
	for _, ranks := range []int{22, 34, 46} { // more than any size but inf; also with one and two ranks per node
		comms = append(comms, policy.Comm{Nodes: 1, Ranks: ranks}, policy.Comm{Nodes: 2, Ranks: ranks}, policy.Comm{Nodes: 3, Ranks: ranks},
			policy.Comm{Nodes: ranks, Ranks: ranks}, policy.Comm{Nodes: ranks / 2, Ranks: ranks})
	}
	tables := make([][]float32, 0, 6)
	for _, available := range []int{0, 2, 3, 5, 12, 14} { // tree, ring and nvls with ll and simple: one of every kind that randomPolicy tells apart
		micros := slices.Repeat([]float32{-1}, 21)
		micros[available] = 10
		tables = append(tables, micros)
	}
	for _, comm := range comms {
		v := p.For(comm)
		sizes := []uint64{1 << 40}
		for _, r := range p.Rules {
			for _, n := range []uint64{r.Bytes.Min, r.Bytes.Max, r.BytesPerRank.Min * uint64(comm.Ranks), (r.BytesPerRank.Max+1)*uint64(comm.Ranks) - 1} {
				sizes = append(sizes, n, n+1)
			}
		}
		slices.Sort(sizes)
		for _, bytes := range slices.Compact(sizes) {
			for _, coll := range []nccl.Coll{nccl.CollAllReduce, nccl.CollBroadcast} {
				for _, pipeOps := range []int{1, 9} {
					for regBuff := -1; regBuff <= 1; regBuff++ {
						for _, micros := range tables {
							d := v.Decide(policy.Query{Coll: coll, Bytes: bytes, PipeOps: pipeOps, RegBuff: regBuff, Costs: nccl.Costs{Micros: micros, NumProto: 3}})
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
