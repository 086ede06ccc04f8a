package telemetry

import (
	"math"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
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
	made := map[string]int{}
	l := NewDecisionLog(r.log(), "0x1", e, made)
	for i := range maxDecisions + 1000 {
		q := policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: uint64(i)}, PipeOps: 1,
			Costs: nccl.Costs{Micros: []float32{20, 50, 50, 30, 50, 50}, NumProto: 3}}
		l.Add(q, v.Decide(q))
	}
	SumUp(r.log(), "0x1", made)
	if n := r.count("TUNER/Go: decision "); n != maxDecisions-1 || r.count("no more are") != 1 ||
		r.count("TUNER/Go: sum comm=0x1 by=p.csv:1 decisions=65535") != 1 {
		t.Errorf("%d lines, the last %q", len(r.lines), r.lines[len(r.lines)-1])
	}
}

// What the model would choose is told where its gain is too small, and only there.
func TestReasonOfAbstention(t *testing.T) {
	c := model.Choice{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}},
		Time: model.Time{LnMicros: math.Log(99)}, Default: model.Time{LnMicros: math.Log(100)}}
	const gain = " (ring/ll, 99 us expected, 1.0 % less than NCCL's (uncertain by 0.0 %))"
	for why, more := range map[model.Abstention]string{model.AbstainGain: gain, model.AbstainBest: ""} {
		a := policy.Answer{Decision: policy.Decision{Config: nccl.Config{Cell: nccl.NoCell}}, Asked: true, Choice: c,
			Abstention: why}
		want := "NCCL's default, the model abstains: " + why.String() + more
		if got := Reason(&policy.Engine{}, policy.Query{}, a); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Where NCCL decides everything, there is no engine.
func TestDecisionWithoutAnEngine(t *testing.T) {
	d := DecisionOf(nil, policy.Query{}, policy.Answer{Decision: policy.Decision{Config: nccl.Config{Cell: nccl.NoCell}}})
	if d.By != record.ByNCCL || d.Because != "" {
		t.Errorf("%+v", d)
	}
}
