package trial

import (
	"fmt"
	"math"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Evidence is what a job has learned on one communicator: what was tried, what each thing is worth, and what came of
// it. The rank that learns writes it as JSON, whole, into the directory of NCCL_TUNER_LEARN.
type Evidence struct {
	Format  string `json:"format"` // EvidenceFormat
	Version int    `json:"version"`
	Key     string `json:"comm"` // id and ranks; names the communicator in one job only
	nccl.Comm
	Name    string    `json:"name,omitempty"` // of the communicator
	NCCL    string    `json:"nccl"`           // release, as nccl.Releases writes it; "": not known
	Machine string    `json:"machine"`        // fingerprint; "": not known
	Began   time.Time `json:"began"`
	At      time.Time `json:"at"` // when this was written
	State   Learning  `json:"state"`

	StepCalls    uint64  `json:"step_calls"`
	StepSeconds  float64 `json:"step_seconds"`
	BlockSeconds float64 `json:"block_seconds"`
	Blocks       int     `json:"blocks"` // that were drawn and counted
	Steps        int     `json:"steps"`  // in them
	// LostSteps is the time that trying has cost so far, in steps: what the drawn arms took beyond NCCL's choice. It is
	// negative where they took less.
	LostSteps float64  `json:"lost_steps"`
	Factors   []Factor `json:"factors"`
	LeftOut   []string `json:"left_out,omitempty"` // what is not tried, and why, a sentence each
	// Of names the communicators of jobs whose evidence was put together here, each with when it began; empty: this is
	// of one. It keeps evidence from counting twice.
	Of []string `json:"of,omitempty"`
	// Result is the comparison of what was learned with what was in force before; nil: it has not begun.
	Result *Finding `json:"result,omitempty"`
}

// Jobs names the communicators of jobs whose evidence this is.
func (e Evidence) Jobs() []string {
	if len(e.Of) > 0 {
		return e.Of
	}
	return []string{e.name()}
}

func (e Evidence) name() string { return e.Key + " " + e.Began.UTC().Format(time.RFC3339Nano) }

// EvidenceFormat and EvidenceVersion open every file of evidence.
const (
	EvidenceFormat  = "nccl-tuner-go learning"
	EvidenceVersion = 2
)

// Learning is how far learning has come.
type Learning string

const (
	Observing Learning = "observing" // what the job calls
	Trying    Learning = "trying"
	Proving   Learning = "proving" // the comparison runs
	Learned   Learning = "learned" // and proven: its rows are in learned.csv
	Nothing   Learning = "nothing" // nothing was found that makes steps shorter
	Stopped   Learning = "stopped" // by an edit, or by the end of the communicator: the next job goes on from here
)

// Factor is a kind of call, of which one thing at a time is tried in each block.
type Factor struct {
	Coll nccl.Coll `json:"collective"`
	nccl.Range
	CallsPerStep float64 `json:"calls_per_step"`
	Settled      bool    `json:"settled"` // no arm is open
	Arms         []Arm   `json:"arms"`    // the first is NCCL's choice
}

// Same reports whether another one is about the same calls, of which NCCL's choice is the same.
func (f *Factor) Same(o Factor) bool {
	return f.Coll == o.Coll && f.Range == o.Range && f.Arms[0].Config == o.Arms[0].Config
}

// Arm returns an arm by its configuration; nil: there is none.
func (f *Factor) Arm(config nccl.Config) *Arm {
	for i := range f.Arms {
		if f.Arms[i].Config == config {
			return &f.Arms[i]
		}
	}
	return nil
}

// Known reports whether NCCL's choice was tried often enough. All effects are against it, so without it they may all be
// off alike.
func (f *Factor) Known() bool { return f.Arms[0].Blocks >= toBeKnown }

// Leader is the arm of the best effect if that is sure; 0, NCCL's choice, if it is not.
func (f *Factor) Leader() int {
	if k := f.best(); f.Arms[k].Effect < -Surely*f.Arms[k].Error && f.Known() {
		return k
	}
	return 0
}

// best is the open arm of the best effect.
func (f *Factor) best() (best int) {
	for k, a := range f.Arms {
		if a.Dropped == "" && (f.Arms[best].Dropped != "" || a.Effect < f.Arms[best].Effect) {
			best = k
		}
	}
	return best
}

// Check finds what no job writes.
func (e *Evidence) Check() error {
	if e.Version != EvidenceVersion {
		return fmt.Errorf("its version is %d (known: %d)", e.Version, EvidenceVersion)
	}
	if e.Nodes < 1 || e.Ranks < e.Nodes {
		return fmt.Errorf("no communicator has %d ranks on %d nodes", e.Ranks, e.Nodes)
	}
	const mostSteps = 1e12
	if e.Blocks < 0 || e.Steps < 0 || math.Abs(e.LostSteps) > mostSteps {
		return fmt.Errorf("blocks is %d, steps %d, lost_steps %g (allowed: 0 or more blocks and steps; lost_steps up "+
			"to %g)", e.Blocks, e.Steps, e.LostSteps, float64(mostSteps))
	}
	for i, f := range e.Factors {
		if f.Min > f.Max || len(f.Arms) == 0 {
			return fmt.Errorf("factor %d: %d to %d bytes, %d arms (needed: a range; NCCL's choice as the first arm)",
				i+1, f.Min, f.Max, len(f.Arms))
		}
		for k, a := range f.Arms {
			if a.Blocks < 0 || a.Effect <= -1 || a.Effect > mostEffect || a.Error > mostEffect ||
				a.Error < leastError && a.Error != 0 || k == 0 && (a.Effect != 0 || a.Error != 0) {
				return fmt.Errorf("factor %d, arm %d: effect is %g, error %g, blocks %d (allowed: an effect above -1 "+
					"up to %d, an error of 0 or from %g to %d, 0 or more blocks; both are 0 for the first arm)", i+1,
					k+1, a.Effect, a.Error, a.Blocks, mostEffect, leastError, mostEffect)
			}
		}
	}
	return nil
}

// No arm does more to the time of a step than mostEffect, and no job knows an effect better than by leastError.
const (
	mostEffect = 1000
	leastError = 1e-9
)

// Settle notes whether at most one arm is open. NCCL's choice is open again where no arm is surely better: all effects
// are against it.
func (f *Factor) Settle() {
	if f.Arms[0].Dropped == "worse" && f.Leader() == 0 {
		f.Arms[0].Dropped = ""
	}
	open := 0
	for _, a := range f.Arms {
		if a.Dropped == "" {
			open++
		}
	}
	f.Settled = open <= 1
}

// Arm is one thing to try.
type Arm struct {
	nccl.Config
	// Effect is what the arm does to the time of a step, relative to NCCL's choice: -0.02 is 2 % shorter. Its standard
	// error is Error. Both are 0 for NCCL's choice, and where Blocks is 0.
	Effect  float64 `json:"effect"`
	Error   float64 `json:"error"`
	Blocks  int     `json:"blocks"`
	Dropped string  `json:"dropped,omitempty"` // why it is tried no more: "worse", "alike"
	// Proven says that a job has proven the arm by a comparison, as one of its leaders.
	Proven bool `json:"proven,omitempty"`
}

// Surely is how many standard errors make an effect sure. Intervals, of 95 %, are as wide either way.
const Surely = 2

// Estimated reports whether anything is known of the effect. That of NCCL's choice is 0.
func (a Arm) Estimated() bool { return a.Blocks > 0 && a.Error > 0 }
