package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// ruleWhen is a policy of rows with only a condition.
func ruleWhen(t testing.TB, conditions ...string) *Policy {
	t.Helper()
	text := "collective,algorithm,when\n"
	for _, c := range conditions {
		text += fmt.Sprintf("any,ring,\"%s\"\n", strings.ReplaceAll(c, `"`, `""`))
	}
	p, err := ReadCSV("when.csv", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var ringAndTree = nccl.Costs{Micros: []float32{10, 20}, NumProto: 1}

func TestConditions(t *testing.T) {
	comm := Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 16}, NVLDomains: 2, Topo: testTopology(), NCCL: release("2.30.7"),
		Name: "DP:0"}
	q := Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 4 << 20}, PipeOps: 1, Costs: ringAndTree}
	for condition, want := range map[string]bool{
		`nccl >= "2.30"`:                          true,
		`nccl >= "2.30.7"`:                        true,
		`nccl > "2.30"`:                           false,
		`nccl > "2.30.6"`:                         true,
		`nccl < "2.31" and nccl <= "2.30"`:        true,
		`nccl < "2.30"`:                           false,
		`nccl <= "2.9.8"`:                         false,
		`nccl == "2.30"`:                          true,
		`nccl == "2.30.6"`:                        false,
		`nccl != "2.30"`:                          false,
		`nccl in "2.28-2.30"`:                     true,
		`nccl not in "2.28-2.29"`:                 true,
		`"2.28" == "2.28" and nccl != "2.28"`:     true,
		`comm_name == "DP:0"`:                     true,
		`comm_name == "dp:0"`:                     false,
		`comm_name startsWith "DP:"`:              true,
		`comm_name in ["TP:0", "DP:0"]`:           true,
		`bytes == 4*MiB`:                          true,
		`bytes_per_rank == 256*KiB`:               true,
		`bytes / ranks == bytes_per_rank`:         true,
		`bytes >= 1.5*MiB`:                        true,
		`bytes % 3 == 1 and pipe_ops == 1`:        true,
		`1*MiB < bytes <= 4*MiB`:                  true,
		`1*MiB < bytes < 4*MiB`:                   false,
		`nodes == 2 && ranks_per_node == 8`:       true,
		`ranks in [8, 16]`:                        true,
		`ranks in 8..15`:                          false,
		`ranks not in [8, 32]`:                    true,
		`nvl_domains == nodes`:                    true,
		`coll == "AllReduce"`:                     true,
		`coll == "all_reduce"`:                    true,
		`coll != "allgather"`:                     true,
		`coll startsWith "all"`:                   true,
		`coll in ["allgather", "REDUCE_SCATTER"]`: false,
		`topo.intra == "nvl" && topo.gdr`:         true,
		`topo.sm >= 100`:                          false,
		`topo.intra_bw > 300.5`:                   true,
		`bytes < topo.intra_bw * 1000`:            false,
		`topo.nics == topo.gpus ? true : false`:   true,
		`max(nodes, 3, pipe_ops) == 3`:            true,
		`abs(nodes - ranks) == 14`:                true,
		`floor(ranks / 3) == 5`:                   true,
		`ceil(ranks / 3) == 6`:                    true,
		`round(2.5) == 3`:                         true,
		`2 ** nodes == 4`:                         true,
		`ranks ** 0.25 == nodes`:                  true,
		`-nodes == 0 - 2`:                         true,
		`bytes % 2.5 == 1.5`:                      true,
		`1 < bytes / ranks < 300*KiB`:             true,
		`bytes / ranks in 1..300*KiB`:             true,
		`ranks in nodes..20`:                      true,
		`1 < (ranks in 8..20 ? nodes : 0) < 9`:    true,
		`ranks in [nodes, 16]`:                    true,
		`bytes * 2**50 * 2**50 > 1`:               true, // numbers do not wrap around
		`ranks in []`:                             false,
		`ranks > 8 ? topo.gdr : false`:            true,
		`true`:                                    true,
		`false`:                                   false,
		// What cannot be computed does not hold, nor does its opposite.
		`bytes / (nodes - 2) > 1`:       false,
		`not (bytes / (nodes - 2) > 1)`: false,
		`bytes % (nodes - 2) == 0`:      false,
		`bytes / 0 > 1`:                 false,
		`not (ranks > 1 ? 1 : true)`:    false,
		// unless it need not be.
		`nodes == 2 || bytes / (nodes - 2) > 1`: true,
	} {
		if got := ruleWhen(t, condition).For(comm).Decide(q).Rule == 0; got != want {
			t.Errorf("%s: %t", condition, got)
		}
	}
}

// A row whose condition fails is off, the next row decides, and it is said once.
func TestFailedConditionIsReportedOnce(t *testing.T) {
	p := ruleWhen(t, "bytes / (ranks - 8) > 1", "ranks / (ranks - 8) > 1", "bytes > 1")
	const perCall = "when.csv:2:3: when: division by zero (1:7)\n | bytes / (ranks - 8) > 1\n | ......^"
	const perComm = "when.csv:3:3: when: division by zero (1:7)\n | ranks / (ranks - 8) > 1\n | ......^"
	var said []string
	for range 3 {
		v := p.For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
		v.ReportConditions(func(p Problem) { said = append(said, p.String()) })
		for bytes := range uint64(10) {
			if got := v.Decide(Query{Call: nccl.Call{Coll: nccl.CollReduce, Bytes: 100 + bytes}, Costs: ringAndTree}).
				Rule; got != 2 {
				t.Fatalf("row %d", got)
			}
		}
	}
	if !slices.Equal(said, []string{perComm, perCall}) {
		t.Errorf("got %q", said)
	}
}

func TestUnknownTopology(t *testing.T) {
	p := ruleWhen(t, "topo.nvswitch || ranks > 0", "ranks_per_node != 8", "bytes > 0")
	if !p.NeedsTopology() || ruleWhen(t, "ranks > 8").NeedsTopology() {
		t.Error("who needs the topology?")
	}
	for _, c := range []struct {
		comm      Comm
		rule, off int
	}{
		{Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 4}}, 1, 1},
		{Comm{Comm: nccl.Comm{Nodes: 3, Ranks: 16}}, 2, 1}, // how many ranks a node has is not known either
		{Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Topo: testTopology()}, 0, 0},
	} {
		v := p.For(c.comm)
		if got := v.Decide(Query{Call: nccl.Call{Bytes: 9}, Costs: ringAndTree}).Rule; got != c.rule ||
			v.noEffect[noEffectTopology] != c.off {
			t.Errorf("%+v: row %d, %d rows off", c.comm, got, v.noEffect[noEffectTopology])
		}
	}
}

// What all calls of a communicator have alike needs no evaluation later.
func TestConditionsOfTheCommunicatorAreFolded(t *testing.T) {
	p := ruleWhen(t, "ranks == 8", "topo.nvswitch && nodes < 4")
	if v := p.For(Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 16}}); !v.Empty() {
		t.Error("rows are left that cannot match")
	}
	if v := p.For(Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 16}, Topo: testTopology()}); v.Empty() || v.perCall {
		t.Error("nothing is left, or something to evaluate")
	}
}

// Rows with equal texts share a condition. Each text has a digest of its own.
func TestEqualConditions(t *testing.T) {
	p := ruleWhen(t, `bytes > 4*MiB`, `bytes > 5*MiB`, `bytes > 4*MiB`)
	if p.Rules[0].When != p.Rules[2].When {
		t.Error("equal conditions are compiled twice")
	}
	seen := map[identity.Digest]string{ruleWhen(t, "").Digest: "no condition"}
	for _, text := range []string{`bytes > 5`, `bytes >= 5`, `bytes_per_rank > 5`, `not (bytes > 5)`,
		`coll == "reduce"`} {
		d := ruleWhen(t, text).Digest
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", text, other)
		}
		if d != ruleWhen(t, text).Digest {
			t.Errorf("%s has two digests", text)
		}
		seen[d] = text
	}
}

func TestLimits(t *testing.T) {
	c := ruleWhen(t, "64*KiB <= bytes < 1*MiB && 2.5*KiB < bytes_per_rank && ranks in [8, 2*8] || "+
		"bytes in 3..5 || bytes > 5*nodes || bytes > 2^63 || pipe_ops == 0 && -1 < pipe_ops").Rules[0].When
	for name, want := range map[string][]int{
		"bytes": {64 << 10, 1 << 20, 3, 5}, "bytes_per_rank": {2560}, "ranks": {8, 16}, "nodes": nil,
		"pipe_ops": {0},
	} {
		if got := c.Limits(name); !slices.Equal(got, want) {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// Communicators of several threads share a policy, and tests share a view.
func TestConditionsInParallel(t *testing.T) {
	p := ruleWhen(t, "bytes % 3 == 0 && ranks > 8", "bytes % 3 == 1 && topo.gdr", "nodes / (bytes % 5) > 0.5",
		"ranks < 12")
	shared := p.For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Topo: testTopology()})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			own := p.For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8 + worker}, Topo: testTopology()})
			own.ReportConditions(func(Problem) {})
			for i := range uint64(300) {
				own.Decide(Query{Call: nccl.Call{Bytes: i}, Costs: ringAndTree})
				want := 3
				if i%3 == 1 {
					want = 1
				} else if i%5 == 1 {
					want = 2
				}
				if got := shared.Decide(Query{Call: nccl.Call{Bytes: i}, Costs: ringAndTree}).Rule; got != want {
					t.Errorf("%d bytes: row %d, want %d", i, got, want)
					return
				}
			}
		})
	}
	all.Wait()
}

// A view has no rows that can decide nothing there: of operations that NCCL asks no tuner about, of no number of bytes,
// and of other communicators.
func TestViewsLeaveOut(t *testing.T) {
	const head = "collective,algorithm,protocol,max_bytes,min_bytes_per_rank,nodes\n"
	for row, empty := range map[string]bool{
		"alltoall,ring,simple,,,": true, "allreduce,ring,simple,,,": false,
		"allreduce,ring,simple,1K,1K,": true, "allreduce,ring,simple,8K,1K,": false,
		"allreduce,ring,simple,,,2": true, "allreduce,ring,simple,,,1": false,
	} {
		p, err := ReadCSV("p.csv", []byte(head+row+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		view := NewEngine(p, nil, nil).For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
		if view.Empty() != empty {
			t.Errorf("%s: empty %v, want %v", row, view.Empty(), empty)
		}
	}
}
