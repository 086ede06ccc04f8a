package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Evidence is what a job has learned on one communicator: what was tried, what each block told, what follows from that,
// and what came of it. The rank that learns writes it as JSON, whole, into the directory of NCCL_TUNER_LEARN.
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
	Blocks       int     `json:"blocks"` // of all runs
	Steps        int     `json:"steps"`  // in them
	// LostSteps is the time that trying has cost so far, in steps: what the drawn arms took beyond NCCL's choice. It is
	// negative where they took less. LostError is its standard error.
	LostSteps float64  `json:"lost_steps"`
	LostError float64  `json:"lost_error"`
	Factors   []Factor `json:"factors"`
	LeftOut   []string `json:"left_out,omitempty"` // what is not tried, and why, a sentence each
	// Result is the comparison of what was learned with what was in force before; nil: it has not begun.
	Result *Conclusion `json:"result,omitempty"`
	Runs   []Run       `json:"runs,omitzero"` // tunefit status does without

	fit fit
}

// Run is what a communicator has tried from its begin to its end. Evidence of a job that goes on has those before, too.
type Run struct {
	Comm   string    `json:"comm"`
	Began  time.Time `json:"began"`
	Blocks []Block   `json:"blocks"` // in order
}

// Block is what a block of steps told.
type Block struct {
	Arms     []int   `json:"arms"`     // by factor
	Mean     float64 `json:"mean"`     // of the logarithms of a step's seconds
	Variance float64 `json:"variance"` // of that mean
	Steps    int     `json:"steps"`    // that tell it; 0: too few
	// Made is how many steps these arms have made, with those that tell nothing. In a run without any it is not known.
	Made float64 `json:"made,omitempty"`
}

// told is how many blocks tell something.
func (r *Run) told() (n int) {
	for _, b := range r.Blocks {
		n += min(b.Steps, 1)
	}
	return n
}

// EvidenceFormat and EvidenceVersion open every file of evidence.
const (
	EvidenceFormat  = "nccl-tuner-go learning"
	EvidenceVersion = 3
)

// Learning is how far learning has come.
type Learning string

const (
	Trying  Learning = "trying"
	Proving Learning = "proving" // the comparison runs
	Learned Learning = "learned" // and proven: its rows are in learned.csv
	Nothing Learning = "nothing" // nothing was found that makes steps shorter
	Stopped Learning = "stopped" // by an edit, or by the end of the communicator: the next job goes on from here
)

// Factor is a kind of call, of which one thing at a time is tried in each block.
type Factor struct {
	Coll nccl.Coll `json:"collective"`
	nccl.Range
	CallsPerStep float64 `json:"calls_per_step"`
	Settled      bool    `json:"settled"` // no arm is open
	Arms         []Arm   `json:"arms"`    // the first is NCCL's choice
}

// same reports whether another one is about the same calls, of which NCCL's choice is the same.
func (f *Factor) same(o Factor) bool {
	return f.Coll == o.Coll && f.Range == o.Range && f.Arms[0].Config == o.Arms[0].Config
}

// arm finds an arm by its configuration; -1: there is none.
func (f *Factor) arm(config nccl.Config) int {
	return slices.IndexFunc(f.Arms, func(a Arm) bool { return a.Config == config })
}

// Known reports whether NCCL's choice was tried often enough. All effects are against it, so without it they may all be
// off alike.
func (f *Factor) Known() bool { return f.Arms[0].Blocks >= toBeKnown }

// Leader is the arm of the best effect if that is sure; 0, NCCL's choice, if it is not.
func (f *Factor) Leader() int {
	if k := f.best(); f.Arms[k].Faster {
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

// Read reads what a job has found out: evidence, or the conclusion of a comparison. The other is nil.
func Read(name string, text []byte) (e *Evidence, c *Conclusion, err error) {
	var into interface{ check() error }
	if bytes.Contains(text, []byte(EvidenceFormat)) {
		e = &Evidence{}
		into = e
	} else {
		c = &Conclusion{}
		into = c
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, nil, wording.JSONErrorAt(name, text, err)
	}
	if err := into.check(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, c, nil
}

// check finds what no job writes.
func (e *Evidence) check() error {
	_, err := nccl.ParseReleases(e.NCCL)
	switch {
	case e.Format != EvidenceFormat:
		return fmt.Errorf("its format is %s (needed: %q)", wording.Quote(e.Format), EvidenceFormat)
	case e.Version != EvidenceVersion:
		return fmt.Errorf("its version is %d (known: %d)", e.Version, EvidenceVersion)
	case err != nil && e.NCCL != "":
		return err
	case e.Nodes < 1 || e.Ranks < e.Nodes:
		return fmt.Errorf("no communicator has %d ranks on %d nodes", e.Ranks, e.Nodes)
	}
	const mostInAll = 1000 // a job tries some hundred at most, and estimates take the square of their number
	arms := 0
	for i, f := range e.Factors {
		if f.Min > f.Max || len(f.Arms) == 0 {
			return fmt.Errorf("factor %d: %d to %d bytes, %d candidates (needed: a range; NCCL's default as the first)",
				i+1, f.Min, f.Max, len(f.Arms))
		}
		if arms += len(f.Arms); arms > mostInAll {
			return fmt.Errorf("more than %d candidates in all (allowed: up to %d)", mostInAll, mostInAll)
		}
	}
	const most, mostSteps, mostMade = 100, 1e6, 1e12 // e to the power of most is more than any time
	for _, run := range e.Runs {
		for i, b := range run.Blocks {
			wrong := len(b.Arms) != len(e.Factors) || math.Abs(b.Mean) > most || b.Variance < 0 || b.Variance > most ||
				b.Steps < 0 || b.Steps > mostSteps || b.Made < 0 || b.Made > mostMade
			for j, k := range b.Arms {
				wrong = wrong || k < -1 || k >= len(e.Factors[j].Arms)
			}
			if wrong {
				return fmt.Errorf("block %d of %s: candidates %v, mean %g, variance %g, steps %d, made %g (needed: "+
					"one of each of %d factors; allowed: up to %d, and %d steps)", i+1, wording.Quote(run.Comm),
					b.Arms[:min(len(b.Arms), 20)], b.Mean, b.Variance, b.Steps, b.Made, len(e.Factors), most,
					int(mostSteps))
			}
		}
	}
	return nil
}

// Add takes over what evidence of one directory tells, as far as it tried the same. Communicators of a job make the
// same steps, and evidence of a job that went on has the runs before: so all that is told of a factor comes from the
// first that has it. inVain reports that all factors were tried, by jobs that ended without a gain.
func (e *Evidence) Add(directory []Evidence) (inVain bool) {
	had := make([]bool, len(e.Factors))
	inVain = true
	for _, other := range directory {
		// Which of the own factors each is; -1: none, or one that others have told of.
		here := make([]int, len(other.Factors))
		for i, f := range other.Factors {
			if here[i] = slices.IndexFunc(e.Factors, f.same); here[i] >= 0 && had[here[i]] {
				here[i] = -1
			}
		}
		for _, run := range other.Runs {
			own := Run{Comm: run.Comm, Began: run.Began}
			for _, b := range run.Blocks {
				arms := slices.Repeat([]int{-1}, len(e.Factors))
				for i, k := range b.Arms {
					if at := here[i]; k >= 0 && at >= 0 {
						arms[at] = e.Factors[at].arm(other.Factors[i].Arms[k].Config)
						had[at] = true
					}
				}
				if b.Arms = arms; slices.Max(append(arms, -1)) >= 0 {
					own.Blocks = append(own.Blocks, b)
				}
			}
			if own.Blocks != nil {
				e.Runs = append(e.Runs, own)
				inVain = inVain && other.State == Nothing
			}
		}
	}
	return inVain && len(had) > 0 && !slices.Contains(had, false)
}

// settle notes whether at most one arm is open. NCCL's choice is open again where no arm is surely better: all effects
// are against it.
func (f *Factor) settle() {
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

// reopen makes all arms open.
func (f *Factor) reopen() {
	for k := range f.Arms {
		f.Arms[k].Dropped = ""
	}
	f.settle()
}

// Arm is one thing to try.
type Arm struct {
	nccl.Config
	// Effect is what the arm does to the time of a step, relative to NCCL's choice: -0.02 is 2 % shorter. Its standard
	// error is Error. Both are 0 for NCCL's choice, and tell nothing where Blocks is 0.
	Effect  float64 `json:"effect"`
	Error   float64 `json:"error"`
	Blocks  int     `json:"blocks"`
	Faster  bool    `json:"faster,omitempty"`  // than NCCL's choice, surely, and without any one block as well
	Dropped string  `json:"dropped,omitempty"` // why it is tried no more: "worse", "alike"
	// Proven says that a job has proven the arm by a comparison, as one of its leaders.
	Proven bool `json:"proven,omitempty"`
}

// Surely is how many standard errors make an effect sure. Intervals, of 95 %, are as wide either way.
const Surely = 2

// Estimated reports whether anything is known of the effect. That of NCCL's choice is 0.
func (a Arm) Estimated() bool { return a.Blocks > 0 && a.Error > 0 }
