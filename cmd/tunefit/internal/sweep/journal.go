package sweep

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// journalFile is the journal's name in the sweep's folder.
const journalFile = "journal.jsonl"

// mostRead bounds what is read of a file in the folder; a run's log is the largest.
const mostRead = 1 << 30

// Batch is what is measured before the next is decided.
type Batch struct {
	Kind   Kind            `json:"kind"`
	Starts []perfrun.Start `json:"starts"`
	// Channels are the counts that could be tried when it was planned; none: older releases do not tell.
	Channels []int `json:"channels,omitempty"`
}

// Kind is what a batch is for.
type Kind string

const (
	Measure Kind = "measure" // to learn from
	Try     Kind = "try"     // the first of a setting, to learn from
	Verify  Kind = "verify"  // what would be chosen, once more
	Loaded  Kind = "loaded"  // of older releases: the default with the library loaded; nothing is learnt from it
	Prove   Kind = "prove"   // the default and the policy in alternation; nothing is learnt from it
)

// Run is one process: a start of a batch, or some of its sizes.
type Run struct {
	ID    int      `json:"run"`   // from 1
	Batch int      `json:"batch"` // from 0
	Start int      `json:"start"` // in its batch, from 0
	Sizes []uint64 `json:"sizes"` // bytes
	// Command is the whole command as a person would type it, with the environment that is set for it.
	Command string    `json:"command"`
	Log     string    `json:"log"`           // file, relative to the sweep's folder
	Job     string    `json:"job,omitempty"` // the allocation of Slurm that it ran in
	Begun   time.Time `json:"begun"`
	End     `json:"-"`

	of    *perfrun.Start
	kind  Kind          // of its batch
	found *bench.Result // what its log says; nil: nothing
	// loaded are RCCL's times of the default with the library. It chooses otherwise with any tuner, so nothing is
	// learnt from them.
	loaded []bench.Sample
	// again says that it was stopped, and then run once more: its times do not count.
	again bool
	// instead are configurations in whose place something else ran.
	instead map[nccl.Config]bool
	counted *reach    // what reach returned last
	took    nccl.Comm // what NCCL took the hosts for, where that is not what was asked for
	direct  bool      // RCCL's direct access was ready
	// unlike says that it was measured under other conditions than the runs before it, so that nothing is found.
	unlike string
	// refused says which of its setting's variables NCCL did not take, so that nothing is found.
	refused string
}

// End is how a run ended.
type End struct {
	Seconds float64 `json:"seconds"`
	Outcome Outcome `json:"outcome,omitempty"`
	Reason  string  `json:"reason,omitempty"` // why it failed, was refused or stopped
}

// Outcome is how a run ended.
type Outcome string

const (
	Running  Outcome = ""         // still, or tunefit was killed while it ran
	Measured Outcome = "measured" // to its end
	Failed   Outcome = "failed"   // it may do better once more
	Refused  Outcome = "refused"  // NCCL does not have that here
	Stopped  Outcome = "stopped"  // by a person, or at the end of the budget
)

// line is one line of the journal; one of its fields is set.
type line struct {
	Batch *Batch  `json:"batch,omitempty"`
	Begin *Run    `json:"begin,omitempty"`
	End   *ending `json:"end,omitempty"`
}

type ending struct {
	ID int `json:"run"`
	End
}

// journal is the file that says what was done. Lines are only added.
type journal struct {
	file    *os.File
	batches []*Batch
	runs    []*Run                // by ID
	of      map[subjectKey][]*Run // by subject; of a proof with the subject of its start
}

// subjectKey is a collective on a communicator under a setting; "": the site's own.
type subjectKey struct {
	fit.Key
	setting string
}

func keyOf(start *perfrun.Start) subjectKey { return subjectKey{start.Key, start.Setting} }

// runsOf returns the runs of a start.
func (j *journal) runsOf(start *perfrun.Start) []*Run {
	return slices.DeleteFunc(slices.Clone(j.of[keyOf(start)]), func(r *Run) bool { return r.of != start })
}

// last is the last run of a start at some sizes; nil: none.
func (j *journal) last(start *perfrun.Start, sizes []uint64) (last *Run) {
	for _, r := range j.runsOf(start) {
		if slices.Equal(r.Sizes, sizes) {
			last = r
		}
	}
	return last
}

// openJournal reads what there is, and keeps others from the folder.
func openJournal(dir string) (j *journal, err error) {
	name := filepath.Join(dir, journalFile)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s: another tunefit sweep works in this folder (needed: its end, or another folder)",
			dir)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text, err := safefile.All(file, mostRead)
	if err != nil {
		return nil, err
	}
	j = &journal{file: file, of: map[subjectKey][]*Run{}}
	whole, number := bytes.LastIndexByte(text, '\n')+1, 0
	for text := range bytes.Lines(text[:whole]) {
		number++
		if err := j.read(text[:len(text)-1]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w (needed: the file as tunefit sweep wrote it)", name, number, err)
		}
	}
	if whole < len(text) { // tunefit was killed while it wrote the rest
		return j, file.Truncate(int64(whole))
	}
	return j, nil
}

func (j *journal) read(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return wording.JSONError(err)
	}
	if err := l.checkNames(); err != nil {
		return err
	}
	switch {
	case l.Batch != nil && len(l.Batch.Starts) > 0:
		j.batches = append(j.batches, l.Batch)
	case l.Begin != nil && l.Begin.ID == len(j.runs)+1 && l.Begin.Batch >= 0 && l.Begin.Batch < len(j.batches) &&
		l.Begin.Start >= 0 && l.Begin.Start < len(j.batches[l.Begin.Batch].Starts):
		batch := j.batches[l.Begin.Batch]
		l.Begin.of, l.Begin.kind = &batch.Starts[l.Begin.Start], batch.Kind
		if before := j.last(l.Begin.of, l.Begin.Sizes); before != nil {
			before.again = before.Outcome == Stopped
		}
		of := keyOf(l.Begin.of)
		j.of[of], j.runs = append(j.of[of], l.Begin), append(j.runs, l.Begin)
	case l.End != nil && l.End.ID == len(j.runs) && l.End.ID > 0:
		j.runs[l.End.ID-1].End = l.End.End
	default:
		return errors.New("a line that does not follow from those before")
	}
	return nil
}

// What becomes the name of a file below the sweep's folder.
var plainName, logName = regexp.MustCompile(`^[a-z0-9_-]+$`), regexp.MustCompile(`^logs/[a-z0-9_-]+\.log$`)

// checkNames refuses names that may lead to a file elsewhere.
func (l *line) checkNames() error {
	if l.Batch != nil {
		for i, start := range l.Batch.Starts {
			names := []string{start.Name}
			for _, pass := range start.Passes {
				names = append(names, cmp.Or(pass.Policy, "none"))
			}
			for k, name := range names {
				if !plainName.MatchString(name) {
					return fmt.Errorf("%s of start %d is %s (allowed: small letters, digits, - and _)",
						[]string{"name", "policy"}[min(k, 1)], i, wording.Quote(name))
				}
			}
		}
	}
	if l.Begin != nil && !logName.MatchString(l.Begin.Log) {
		return fmt.Errorf("log is %s (allowed: logs/NAME.log, NAME of small letters, digits, - and _)",
			wording.Quote(l.Begin.Log))
	}
	return nil
}

// write adds a line, and returns when it is on the disk.
func (j *journal) write(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := j.read(text); err != nil {
		return err
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return err
	}
	return j.file.Sync()
}

func (j *journal) close() error { return j.file.Close() }
