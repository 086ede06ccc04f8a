package trial

import (
	"errors"
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

// check finds what no job writes.
func (c *Conclusion) check() error {
	if c.A.Name == "" || c.B.Name == "" || c.Ranks < 1 || c.Nodes < 1 {
		return errors.New("it does not name what is compared on which ranks")
	}
	return nil
}

// Compared is one side.
type Compared struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Side is one of the two versions that are compared.
type Side int8

// The sides.
const (
	A Side = iota
	B
)

func (s Side) String() string { return string("AB"[s]) }

// State says whether a comparison goes on, or why it has ended.
type State string

// The states of a comparison.
const (
	Running  State = "running"
	Precise  State = "precise"  // the interval is narrow enough
	Clear    State = "clear"    // one side is surely slower, so the job should stop trying it
	Budget   State = "budget"   // it has lasted long enough
	Edited   State = "edited"   // one side was given up by an edit
	Followed State = "followed" // another communicator has ended its comparison; this one alone would find less
	NoChange State = "nochange" // sides do not come into force
)

// Limits of a comparison.
const (
	minPairs  = 6     // before the interval is believed
	maxPairs  = 100   // then it ends with what it has
	precise   = 0.005 // half the width of the interval, relative, that ends it
	surePairs = 2     // the fewest that end it early
	large     = 0.02  // because a side is so much slower,
	clearly   = 3     // by so many standard errors, which are wide where there are few blocks
)

// Result is what is known by now. Step times are relative: -0.03 means that steps of A take 3 % less time than those of
// B.
type Result struct {
	State State   `json:"state"`
	Pairs int     `json:"pairs"` // of blocks
	Steps int     `json:"steps"` // in all blocks
	Mean  float64 `json:"mean"`  // of A relative to B; 0 without pairs
	Low   float64 `json:"low"`   // of the 95 % interval
	High  float64 `json:"high"`
}

// Faster and Slower report that A's steps are shorter than B's, or longer, by an interval without 0.
func (r Result) Faster() bool { return r.Known() && r.High < 0 }

// Slower is Faster's opposite; both may be false.
func (r Result) Slower() bool { return r.Known() && r.Low > 0 }

// Known reports that there are enough pairs for an interval.
func (r Result) Known() bool {
	return r.State == Clear || r.Pairs >= minPairs && r.State != Followed
}

func (r Result) String() string {
	if !r.Known() {
		return fmt.Sprintf("not known yet, %d of at least %d pairs of blocks", r.Pairs, minPairs)
	}
	return fmt.Sprintf("step time %+.1f %% (%+.1f .. %+.1f)", 100*r.Mean, 100*r.Low, 100*r.High)
}

// Verdict says what is known, in words.
func (c Conclusion) Verdict() string {
	switch {
	case c.State == NoChange && !c.Known():
		return "given up: the versions did not become active by turns"
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
