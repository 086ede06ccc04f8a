package tuner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/atomicfile"
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

// found is what is known by now.
func (d *comparison) found(r trial.Result, stays trial.Side) Comparison {
	side := func(s trial.Side) Compared { return Compared{d.sides[s].String(), d.sides[s].Meaning()} }
	return Comparison{
		Comm: d.comm.key(), Nodes: d.comm.info.Nodes, Ranks: d.comm.info.Ranks,
		A: side(trial.A), B: side(trial.B), Canary: d.canary, Stays: stays.String(), Began: d.began, At: d.now(),
		StepCalls: d.steps.period, StepSeconds: d.steps.took.Seconds(), BlockSeconds: d.blocks.Length.Seconds(), Result: r,
	}
}

// tell tells the exporter, tunefit and others how far the trial is.
func (d *comparison) tell(ctx context.Context, c Comparison) {
	d.comm.found.Store(&c)
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings, numbers and times
	}
	if err := d.save(text); err != nil && !d.unsaved {
		d.unsaved = true // once, not after each pair
		d.log.Warnf("%s=%s: the comparison is not written: %v", EnvRecord, d.comm.settings.record, err)
	}
	if err := d.member.Note(ctx, text); err != nil && ctx.Err() == nil {
		d.log.Infof("tunefit status cannot show the comparison: %v", err)
	}
}

// ComparisonFiles matches the names of files in NCCL_TUNER_RECORD that hold a Comparison.
const ComparisonFiles = "comparison-*.json"

// save writes the comparison to NCCL_TUNER_RECORD, if that is set: one file for each, replaced as a whole.
func (d *comparison) save(text []byte) error {
	dir := d.comm.settings.record
	if dir == "" {
		return nil
	}
	name := strings.Replace(ComparisonFiles, "*", fmt.Sprintf("%s-%d", d.comm.key(), d.began.UnixMilli()), 1)
	path := filepath.Join(dir, name)
	// The end of the communicator waits for this, and a file server may be away.
	return reason(d.comm.plugin.hung.Do(path, recordLimit, func() error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return atomicfile.Write(path, append(text, '\n'))
	}))
}

// Verdict says what is known, in words.
func (c Comparison) Verdict() string {
	switch {
	case c.State == trial.NoChange && !c.Known():
		return "given up: the versions did not come into force by turns, or a step takes too long"
	case c.State == trial.Followed:
		return "not known: another communicator of the process has ended its comparison"
	case !c.Known() && c.State != trial.Running:
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
		if c.Stays == trial.B.String() {
			text += ", so it was taken back"
		}
	default:
		text += ": no difference is proven"
	}
	if c.State == trial.Running {
		text += " so far"
	}
	return text
}

// Effort says what the verdict rests on.
func (c Comparison) Effort() string {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Millisecond) }
	return fmt.Sprintf("%s of blocks of %v, %d steps of some %v", plural(c.Pairs, "pair", "pairs"), seconds(c.BlockSeconds), c.Steps, seconds(c.StepSeconds))
}
