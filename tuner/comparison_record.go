package tuner

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/trial"
)

// Comparison is what a job has found out about two versions of its policy. Ranks publish it as JSON.
type Comparison struct {
	Comm   string    `json:"comm"` // id and ranks
	Nodes  int       `json:"nodes"`
	Ranks  int       `json:"ranks"`
	A      Compared  `json:"a"` // the policy, or an edit of it
	B      Compared  `json:"b"`
	Canary bool      `json:"canary,omitempty"` // B was in force before A
	Stays  string    `json:"stays"`            // the side that is in force at the end
	Began  time.Time `json:"began"`
	At     time.Time `json:"at"` // when this was written
	// Of a step, and of a block, which one side is in force for.
	StepCalls    uint64  `json:"step_calls"`
	StepSeconds  float64 `json:"step_seconds"`
	BlockSeconds float64 `json:"block_seconds"`
	trial.Result
}

// Compared is one side.
type Compared struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func (v *version) String() string {
	b, err := DecodeBundle(v.content)
	name := b.Policy.Name + b.Model.Name
	switch {
	case v.engine == nil || err != nil:
		return "NCCL alone"
	case b.Policy.Name != "" && b.Model.Name != "":
		name = b.Policy.Name + " with " + b.Model.Name
	}
	return fmt.Sprintf("%s (version %.12s)", name, v.Meaning())
}

// publish tells tunefit and others how far the trial is.
func (d *comparison) publish(ctx context.Context, r trial.Result, stays trial.Side) {
	side := func(s trial.Side) Compared { return Compared{d.sides[s].String(), d.sides[s].Meaning()} }
	text, err := json.Marshal(Comparison{
		Comm: d.comm.key(), Nodes: d.comm.info.Nodes, Ranks: d.comm.info.Ranks,
		A: side(trial.A), B: side(trial.B), Canary: d.canary, Stays: stays.String(), Began: d.began, At: time.Now(),
		StepCalls: d.steps.period, StepSeconds: d.steps.took.Seconds(), BlockSeconds: d.blocks.Length.Seconds(), Result: r,
	})
	if err != nil {
		panic(err) // strings, numbers and times
	}
	if err := d.member.Note(ctx, text); err != nil && ctx.Err() == nil {
		d.log.Infof("tunefit status cannot show the comparison: %v", err)
	}
}
