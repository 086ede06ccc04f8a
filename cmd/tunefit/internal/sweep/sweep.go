package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
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

	Launcher    *launch.Launcher
	Programs    string        // folder of nccl-tests' programs; empty: PATH
	Args        []string      // more options for them
	Library     string        // our tuner library
	Environment bool          // configurations are forced by NCCL_ALGO and the like instead of the library
	Silence     time.Duration // a run that prints nothing for so long is ended
	Budget      time.Duration // for all runs together; 0: no limit

	Proof int // so many runs of the default, and of the policy, come after the sweep

	Say func(format string, args ...any) // one line of progress
	Now func(text string)                // what runs now; empty: nothing. nil: nobody asks
}

// Sweep is one folder of measurements.
type Sweep struct {
	Options
	journal *journal
	begun   time.Time
	earlier time.Duration    // that runs took before this process
	results []*bench.Result  // of each run, by ID; nil: nothing could be read
	waited  time.Duration    // for nodes
	looked  int              // nodes of the preflight
	job     string           // whose nodes they were
	proved  bool             // what was left of the last batch was run just now
	over    map[fit.Key]bool // nothing more is to be measured of it
	short   map[fit.Key]bool // what the rest of the budget was too short for
	// offered are the algorithms and protocols that NCCL has, as our library saw.
	offered map[fit.Key]map[nccl.Cell]bool
}

// errBudget ends a sweep early; what was measured is kept.
var errBudget = errors.New("the budget is spent")

// Open begins a sweep in a folder, or goes on with the one there.
func Open(o Options) (*Sweep, error) {
	for _, dir := range []string{"logs", "policies"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	j, err := openJournal(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Sweep{Options: o, journal: j, begun: time.Now(), over: map[fit.Key]bool{}, short: map[fit.Key]bool{}, offered: map[fit.Key]map[nccl.Cell]bool{}}
	endMarked(s.mark()) // what a killed tunefit has left
	for i := range j.runs {
		if r := &j.runs[i]; r.Outcome == Running {
			if err := s.bury(*r); err != nil {
				return nil, err
			}
		}
		s.earlier += time.Duration(j.runs[i].Seconds * float64(time.Second))
		found, _ := s.read(&j.runs[i])
		s.results = append(s.results, found)
	}
	return s, nil
}

// Close ends the use of the folder, and of nodes.
func (s *Sweep) Close() error { return errors.Join(s.Launcher.Close(), s.journal.close()) }

// Run measures until nothing is worth its time, or ctx ends. It returns nil where the sweep is over, or its
// budget; what then is missing it says.
func (s *Sweep) Run(ctx context.Context) error {
	s.noteDecisive()
	return s.within(ctx, s.all)
}

// within says so where something was not done within the budget.
func (s *Sweep) within(ctx context.Context, do func(context.Context) error) error {
	err := do(ctx)
	if errors.Is(err, errBudget) || err == nil && len(s.short) > 0 {
		s.Say("%s", s.unfinished())
		return nil
	}
	return err
}

func (s *Sweep) all(ctx context.Context) error {
	if n := len(s.journal.batches); n > 0 {
		before := len(s.journal.runs)
		if err := s.batch(ctx, n-1); err != nil {
			return err
		}
		s.proved = len(s.journal.runs) > before
	}
	for _, key := range s.Keys {
		for {
			next, err := s.next(key)
			if err != nil {
				return err
			}
			if len(next.Starts) == 0 {
				break
			}
			if err := s.journal.write(line{Batch: &next}); err != nil {
				return err
			}
			if err := s.batch(ctx, len(s.journal.batches)-1); err != nil {
				return err
			}
		}
		s.conclude(key)
	}
	return nil
}

// next is what to measure next of a subject; nothing once it is done.
func (s *Sweep) next(key fit.Key) (Batch, error) {
	group, space, err := s.known(key)
	if err != nil {
		return Batch{}, err
	}
	smaller, verified := s.smaller(key), s.verified(key)
	switch {
	case s.hopeless(key) != "", verified && smaller != nil:
		return Batch{}, nil
	case smaller != nil:
		space.Sizes = s.Sizes
		return s.verification(space, smaller), nil
	}
	next := space.Next(group)
	// What a verification finds to fail may make more look worth its time, without end.
	if enough := verified && next.Stage >= fit.StageRounds; enough || len(next.Runs) == 0 || s.reserved(key) {
		if verified || group == nil || len(group.Cells) == 0 {
			if len(next.Runs) > 0 && !verified {
				return Batch{}, errBudget
			}
			return Batch{}, nil // there is nothing to verify
		}
		return s.verification(space, group), nil
	}
	b := Batch{Kind: Measure}
	for _, r := range next.Runs {
		b.Starts = append(b.Starts, s.starts(perfrun.Of(key, r))...)
	}
	return b, nil
}

// known is what was measured of a subject, nil: nothing, and what may be measured of it.
func (s *Sweep) known(key fit.Key) (*fit.Group, fit.Space, error) {
	group, failed := s.group(key)
	space, err := s.Choices.Space(key, append(failed, s.givenUp(key)...))
	space.Families = slices.DeleteFunc(space.Families, func(f nccl.Cell) bool { return !s.isOffered(key, f) })
	space.Sizes, space.Asked = perfrun.Sizes(group, s.Sizes, s.SizesNamed), s.asked(key)
	return group, space, err
}

func (s *Sweep) verification(space fit.Space, group *fit.Group) Batch {
	b := Batch{Kind: Verify}
	for _, start := range perfrun.Verification(space.Key, space.Sizes, space.Verification(group), s.Repetitions) {
		b.Starts = append(b.Starts, s.starts(start)...)
	}
	return b
}

// starts make a start: several, where only a policy could change the configuration from size to size.
func (s *Sweep) starts(start perfrun.Start) []perfrun.Start {
	if s.Environment {
		return start.Split()
	}
	return []perfrun.Start{start}
}

// smaller is what was measured of the same collective on fewer nodes, but several: the fastest there are nearly always
// among the three fastest on more. One node tells nothing about several.
func (s *Sweep) smaller(key fit.Key) (best *fit.Group) {
	for _, k := range s.before(key) {
		if best != nil && k.Nodes < best.Nodes {
			continue
		}
		if g, _ := s.group(k); g != nil && len(g.Cells) > 0 {
			best = g
		}
	}
	return best
}

// before are the subjects with fewer nodes, but several, that come before one.
func (s *Sweep) before(key fit.Key) []fit.Key {
	if s.Full {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Keys[:slices.Index(s.Keys, key)]), func(k fit.Key) bool {
		return k.Coll != key.Coll || k.Ranks*key.Nodes != key.Ranks*k.Nodes || k.Nodes < 2 || k.Nodes >= key.Nodes
	})
}

// hopeless is why the default of a subject cannot be measured, without which nothing tells what is gained.
func (s *Sweep) hopeless(key fit.Key) (reason string) {
	for _, i := range s.journal.of(key).runs {
		r := &s.journal.runs[i]
		if r.Batch != s.journal.of(key).batches[0] || r.Start > 0 { // the default comes first
			break
		}
		if left, failed, refused := s.left(r.Batch, r.Start, s.journal.start(r).Sizes); len(left) > 0 && (refused || failed >= attempts) {
			reason = r.Reason
		}
	}
	return reason
}

// Hopeless are the subjects that could not be measured.
func (s *Sweep) Hopeless() (all []string) {
	for _, key := range s.Keys {
		if s.hopeless(key) != "" {
			all = append(all, key.String())
		}
	}
	return all
}

// verified reports whether all that was measured of a subject was followed by a verification.
func (s *Sweep) verified(key fit.Key) (is bool) {
	for _, b := range s.journal.of(key).batches {
		if kind := s.journal.batches[b].Kind; kind != Prove {
			is = kind == Verify
		}
	}
	return is
}

// group is the measurements of a subject, nil: none, and what NCCL refused.
func (s *Sweep) group(key fit.Key) (*fit.Group, []nccl.Config) {
	pool, trusted := fit.NewPool(), s.trusted(key)
	for _, i := range s.journal.of(key).runs {
		r := s.results[i]
		if r == nil || s.kind(i) == Prove {
			continue
		}
		pool.Begin(r.File)
		for k := range r.Samples {
			if m := &r.Samples[k]; trusted(m) {
				pool.Add(m)
			}
		}
		for k := range r.Failed {
			pool.Fail(&r.Failed[k])
		}
	}
	set := pool.Set()
	return set.Of(key), set.Failed[key]
}

// kind is what a run was for.
func (s *Sweep) kind(run int) Kind { return s.journal.batches[s.journal.runs[run].Batch].Kind }

// trusted tells the measurements of a subject from those of configurations that were given up: what crashes, hangs or
// computes wrong results at one size must not be chosen at another. Of a hopeless subject nothing counts.
func (s *Sweep) trusted(key fit.Key) func(*bench.Sample) bool {
	if s.hopeless(key) != "" {
		return func(*bench.Sample) bool { return false }
	}
	given := s.givenUp(key)
	return func(m *bench.Sample) bool {
		return m.Selection == bench.SelectionDefault || !slices.ContainsFunc(given, func(c nccl.Config) bool {
			return c.Algo == m.Algo && c.Proto == m.Proto && (c.Channels == m.Channels || c.Channels == 0)
		})
	}
}

// Samples are all that was measured to learn from, and what failed.
func (s *Sweep) Samples() (samples, failed []bench.Sample) {
	trusted := map[fit.Key]func(*bench.Sample) bool{}
	for key := range s.journal.subjects {
		trusted[key] = s.trusted(key)
	}
	for i, r := range s.results {
		if r == nil || s.kind(i) == Prove {
			continue
		}
		key := s.journal.start(&s.journal.runs[i]).Key
		for k := range r.Samples {
			if trusted[key](&r.Samples[k]) {
				samples = append(samples, r.Samples[k])
			}
		}
		for _, m := range r.Failed {
			if m.Bytes == 0 {
				failed = append(failed, m)
			}
		}
	}
	for _, key := range s.Keys { // logs tell less of what was asked for than the journal
		failed = append(failed, s.unmet(key)...)
	}
	return samples, failed
}

// spent is the time so far, without that spent waiting for nodes.
func (s *Sweep) spent() time.Duration { return s.earlier + time.Since(s.begun) - s.waited }

func (s *Sweep) mark() string {
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		dir = s.Dir
	}
	return fmt.Sprintf("TUNEFIT_SWEEP=%s", dir)
}
