package trial

import (
	"fmt"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Conclusion is what a job has found out about two versions of its policy. Ranks publish it as JSON.
type Conclusion struct {
	Key string `json:"comm"` // id and ranks
	nccl.Comm
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
	Result
}

// Compared is one side.
type Compared struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// found is what is known by now.
func (d *comparison) found(r Result, stays Side) Conclusion {
	side := func(s Side) Compared { return Compared{d.sides[s].String(), d.sides[s].Meaning()} }
	return Conclusion{
		Key: d.Key, Comm: d.Comm,
		A: side(A), B: side(B), Canary: d.canary, Stays: stays.String(), Began: d.began, At: d.now(),
		StepCalls: d.steps.period, StepSeconds: d.steps.took.Seconds(), BlockSeconds: d.blocks.length.Seconds(),
		Result: r,
	}
}

// Verdict says what is known, in words.
func (c Conclusion) Verdict() string {
	switch {
	case c.State == NoChange && !c.Known():
		return "given up: the versions did not become active by turns, or a step takes too long"
	case c.State == Followed:
		return "not known: another communicator of the process has ended its comparison"
	case !c.Known() && c.State != Running:
		return "not known: it has ended too early"
	}
	text := c.Result.String()
	switch {
	case !c.Known():
		return text
	case c.Faster():
		text += ": faster"
	case c.Slower():
		text += ": slower"
		if c.Stays == B.String() {
			text += ", so it was rolled back"
		}
	default:
		text += ": no significant difference"
	}
	if c.State == Running {
		text += " so far"
	}
	return text
}

// Effort says what the verdict rests on.
func (c Conclusion) Effort() string {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Millisecond) }
	return fmt.Sprintf("%s of blocks of %v, %d steps of some %v", wording.Plural(c.Pairs, "pair"),
		seconds(c.BlockSeconds), c.Steps, seconds(c.StepSeconds))
}
