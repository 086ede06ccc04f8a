// Package sweep measures a cluster. It starts nccl-tests again and again, learns from each log what to measure next,
// and verifies what it would choose.
//
// Its folder holds all that it knows: a journal of what was planned, begun and ended, a log of each run, and the
// policies that decided. The next run depends on nothing else, so a sweep that was stopped or killed continues where
// it was.
//
// next.go plans, run.go runs, judge.go tells what failed, results.go reads what was measured.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// Options say what is measured, and how.
type Options struct {
	Dir        string    // of the sweep
	Keys       []fit.Key // what is measured, in this order
	Sizes      []uint64  // bytes, ascending
	SizesNamed bool      // a person chose Sizes
	Choices    *perfrun.Choices
	// Full measures large communicators like small ones, instead of what was fastest on fewer nodes.
	Full        bool
	Repetitions int // of the verification, 1 or more

	Launcher *launch.Launcher
	Programs string   // folder of nccl-tests' programs; empty: PATH
	Args     []string // more options for them
	// PerProcess is how many GPUs Args give each process; 0: they do not say, and the launcher does.
	PerProcess int
	// Shared is why a process has several GPUs though nobody asked for that, in words; "": it has not.
	Shared string
	// Bounds are variables that bound channels (bench.ChannelBounds), which all runs get, as jobs will.
	Bounds map[string]string
	// Settings are those of jobs to try besides the site's own: variables, as perfrun.Start has them.
	Settings []string
	Job      *profile.Profile // whose calls settings are compared by; nil: all sizes count alike

	Library string        // our tuner library
	Silence time.Duration // a run that prints nothing for so long is ended
	Budget  time.Duration // for all runs together; 0: no limit

	// Single is why a start measures one pass, in words; "": it measures several. The preflight may find a reason, too.
	Single string

	Proof int // so many runs of the default, and of the policy, come after the sweep

	From *fit.Set // for DryRun: what was measured by hand, in place of a journal; nil: nothing

	Say func(format string, args ...any) // one line of progress
	Now func(cli.Step)                   // which run is going on; nil: nobody asks
}

// Sweep is one folder of measurements, as one setting sees it.
type Sweep struct {
	*folder
	setting   string           // "": the site's own
	concluded map[fit.Key]bool // nothing more is to be measured of it
	cutShort  map[fit.Key]bool // what the rest of the budget was too short for
	compared  bool             // the settings to try met the site's own, as far as they should
	// notOffered are the algorithms and protocols that NCCL does not have, as the logs of runs tell.
	notOffered map[fit.Key]map[nccl.Cell]bool
	channels   map[fit.Key]bench.MostChannels // of each subject, as NCCL's log of its runs says
}

// folder is what all settings of a sweep have in common.
type folder struct {
	Options
	journal         *journal
	settings        map[string]*Sweep
	begun           time.Time
	earlier         time.Duration // that runs took before this process
	preflightPassed bool          // the preflight found nothing
	moreGPUs        bool          // a node has more GPUs than runs use, as the preflight saw
	announced       string        // the settings that meet the site's own, as last said
	cycles          string        // the option of nccl-tests that repeats all sizes; empty: not known yet
}

// errBudget ends a sweep early; what was measured is kept.
var errBudget = errors.New("the budget is spent")

// Open begins a sweep in a folder, or goes on with the one there.
func Open(o Options) (*Sweep, error) {
	for _, dir := range []string{"logs", "policies", topologyFolder} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	j, err := openJournal(o.Dir)
	if err != nil {
		return nil, err
	}
	s := newSweep(o, j)
	killMarked(s.mark()) // what a killed tunefit has left
	boundsNow := s.Bounds
	for _, r := range j.runs {
		if r.Outcome == Running {
			if err := s.markKilled(r); err != nil {
				return nil, err
			}
		}
		s.earlier += time.Duration(r.Seconds * float64(time.Second))
		s.read(r)
		r.settle()
		if under := r.conditions(); under != nil && len(boundsNow) == 0 { // it goes on as it was begun
			s.Bounds = under.Bounds()
		}
	}
	return s, nil
}

func newSweep(o Options, j *journal) *Sweep {
	f := &folder{Options: o, journal: j, begun: time.Now(), settings: map[string]*Sweep{}}
	return f.under("")
}

// under is the sweep of a setting.
func (f *folder) under(setting string) *Sweep {
	if f.settings[setting] == nil {
		f.settings[setting] = &Sweep{folder: f, setting: setting, concluded: map[fit.Key]bool{},
			cutShort: map[fit.Key]bool{}, notOffered: map[fit.Key]map[nccl.Cell]bool{},
			channels: map[fit.Key]bench.MostChannels{}}
	}
	return f.settings[setting]
}

// runs are those of a subject under the setting.
func (s *Sweep) runs(key fit.Key) []*Run { return s.journal.of[subjectKey{key, s.setting}] }

// batches are those of a subject under the setting, without proofs.
func (s *Sweep) batches(key fit.Key) []*Batch {
	return slices.DeleteFunc(slices.Clone(s.journal.batches), func(b *Batch) bool {
		return b.Kind == Prove || keyOf(&b.Starts[0]) != subjectKey{key, s.setting}
	})
}

// Close ends the use of the folder.
func (s *Sweep) Close() error { return s.journal.close() }

// needs returns how many nodes a sweep uses, and how many GPUs of each.
func (o *Options) needs() (nodes, gpus int) {
	for _, key := range o.Keys {
		nodes, gpus = max(nodes, key.Nodes), max(gpus, key.Ranks/key.Nodes)
	}
	return nodes, gpus
}

// perProcess says how many GPUs of a node each process has.
func (o *Options) perProcess(perNode int) int {
	return cmp.Or(o.PerProcess, o.Launcher.PerProcess(perNode))
}

// processes says what runs start on the largest number of GPUs of a node, and under which bounds.
func (o *Options) processes() string {
	_, gpus := o.needs()
	text := "runs start one process a GPU, by " + o.Launcher.String()
	if each := o.perProcess(gpus); each > 1 {
		text = fmt.Sprintf("runs start one process for %d GPUs", each)
		if o.Shared != "" {
			text += ", since " + o.Shared
		}
		text += "; jobs start one a GPU, whose times may differ"
	}
	if o.Single != "" {
		text += "; each measures one configuration at a size, since " + o.Single
	}
	if len(o.Bounds) > 0 {
		text += "; under " + strings.Join(cli.Assignments(o.Bounds), " ") + ", which jobs have to have, too"
	}
	return text
}

// Allocation returns the options by which salloc and sbatch get what a sweep needs. Without --exclusive a job may have
// one CPU of each node, and others on the nodes change the times.
func (o *Options) Allocation() string {
	nodes, gpus := o.needs()
	return fmt.Sprintf("-N %d --gpus-per-node=%d --exclusive", nodes, gpus)
}

// Allocated reports whether there are nodes to run on: a sweep that began in an allocation goes on in one.
func (s *Sweep) Allocated() bool {
	earlier := ""
	for _, r := range s.journal.runs {
		earlier = cmp.Or(r.Job, earlier)
	}
	return s.Launcher.Allocated(earlier)
}

// Run measures until more runs would not pay off, or ctx ends. It returns nil if the sweep is finished, and also if the
// budget is spent: then it says what is missing.
func (s *Sweep) Run(ctx context.Context) error {
	s.noteRemoved()
	return s.within(ctx, s.all)
}

// within says what was not done within the budget.
func (s *Sweep) within(ctx context.Context, do func(context.Context) error) error {
	err := do(ctx)
	if errors.Is(err, errBudget) || err == nil && len(s.cutShort) > 0 {
		s.Say("%s", s.unfinished())
		return nil
	}
	return err
}

func (s *Sweep) all(ctx context.Context) error {
	// What a killed sweep was about to run. Prove goes on with a proof, which may be of a policy that has been edited.
	if b := len(s.journal.batches) - 1; b >= 0 {
		if last := s.journal.batches[b]; last.Kind != Prove && last.Kind != Loaded {
			if err := s.under(last.Starts[0].Setting).batch(ctx, b); err != nil {
				return err
			}
		}
	}
	for _, key := range s.Keys {
		if err := s.follow(ctx, func() (Batch, error) { return s.next(key) }); err != nil {
			return err
		}
		s.conclude(key)
	}
	err := s.follow(ctx, s.tryNext)
	s.compared = err == nil
	return err
}

// follow runs what is next until nothing is.
func (s *Sweep) follow(ctx context.Context, next func() (Batch, error)) error {
	for {
		b, err := next()
		if err != nil || len(b.Starts) == 0 {
			return err
		}
		if !s.preflightPassed { // it may tell that a start measures one pass
			if err := s.preflight(ctx); err != nil {
				return err
			}
			continue
		}
		if err := s.begin(ctx, b); err != nil {
			return err
		}
	}
}

// begin writes a batch down, and runs it.
func (s *Sweep) begin(ctx context.Context, b Batch) error {
	if err := s.journal.write(line{Batch: &b}); err != nil {
		return err
	}
	return s.under(b.Starts[0].Setting).batch(ctx, len(s.journal.batches)-1)
}

func (s *Sweep) mark() string {
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		dir = s.Dir
	}
	return fmt.Sprintf("TUNEFIT_SWEEP=%s", dir)
}
