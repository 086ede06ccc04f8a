package telemetry

import (
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// Where more decisions are made than a log should hold, it ends.
func TestDecisionLogEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	var r recorder
	p, err := policy.ReadCSV("p.csv", []byte("allreduce,0,inf,ring,ll,1,1,8\n"))
	if err != nil {
		t.Fatal(err)
	}
	e := policy.NewEngine(p, nil, nil)
	v := e.For(policy.Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
	l := NewDecisionLog(r.log(), e)
	for i := range maxDecisions + 1000 {
		q := policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: uint64(i)}, PipeOps: 1,
			Costs: nccl.Costs{Micros: []float32{20, 50, 50, 30, 50, 50}, NumProto: 3}}
		l.Add(q, v.Decide(q))
	}
	l.SumUp()
	if r.count("decided by") != maxDecisions || r.count("no more are") != 1 ||
		r.count("p.csv:1 decided 65536 shapes") != 1 {
		t.Errorf("%d lines, the last %q", len(r.lines), r.lines[len(r.lines)-1])
	}
}
