package livejobs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// waiter waits until the communicators that read a file run on its new text.
type waiter struct {
	*observer
	pushOutcome
	file       watchedFile // that the jobs read
	text       []byte      // its new one
	out        io.Writer
	progress   *cli.Progress
	targets    []*target
	began      time.Time
	all        []*Communicator            // of the first look
	otherFiles []string                   // what the live ones of Others read
	refusals   map[refusalKey]refusedFile // of this look
	classified map[string]bool            // by key: communicators that need no second look at which file they read
	reported   map[string]bool            // jobs that were said to have switched, and what was said not to be known
}

func newWaiter(rendezvous string, file watchedFile, out io.Writer) *waiter {
	o := newObserver(rendezvous)
	o.mayCome = true
	return &waiter{observer: o, file: file, out: out, progress: cli.NewProgress(io.Discard),
		classified: map[string]bool{}, reported: map[string]bool{}, refusals: map[refusalKey]refusedFile{},
		pushOutcome: pushOutcome{File: file.path, Unclear: []commName{}, Unseen: []string{}, Warnings: []string{}}}
}

// target is a communicator that reads the file.
type target struct {
	notSwitched   // until it is done
	key           string
	goal          policyfile.Bundle // what its ranks read now
	before        uint64            // the last change that was known before the file was written
	same          map[string]bool   // by content digest: whether the content means the same as the goal
	done          bool              // it runs on the goal, or has ended
	ended         bool
	willNotSwitch bool // it never will
}

func key(c *Communicator) string {
	return c.Rendezvous + " " + c.Key
}

// prepare finds the communicators, before the file is written.
func (w *waiter) prepare(ctx context.Context) error {
	all, err := w.look(ctx)
	if err != nil {
		return err
	}
	w.began = time.Now()
	w.all = all
	w.targets = w.classify(all)
	for _, job := range w.byJob() {
		w.reported[job[0].Rendezvous] = len(w.openOf(job)) == 0
	}
	return nil
}

// classify returns the communicators that read the file, of those of a look that are not known yet.
func (w *waiter) classify(all []*Communicator) (found []*target) {
	w.Unclear, w.Unseen = []commName{}, []string{}
	for _, err := range w.unseen {
		w.Unseen = append(w.Unseen, err.Error())
	}
	for _, c := range all {
		if w.classified[key(c)] {
			continue
		}
		reads, known := w.reads(c)
		switch {
		case c.Ended || len(c.left()) > 0: // no collective runs on it any more
		case !known:
			w.Unclear = append(w.Unclear, c.name())
			continue
		case !reads:
			w.Others++
			if file := w.fileOf(c); file != "" {
				w.otherFiles = append(w.otherFiles, file)
			}
		default:
			t := &target{notSwitched: notSwitched{commName: c.name()}, key: key(c), goal: w.goal(c),
				same: map[string]bool{}}
			if n := len(c.Changes); n > 0 {
				t.before = c.Changes[n-1].K
			}
			w.judge(t, c)
			found = append(found, t)
		}
		w.classified[key(c)] = true
	}
	return found
}

// fileOf is the file of the kind that a communicator's ranks read; "": none, or it is not known.
func (w *waiter) fileOf(c *Communicator) string {
	if w.file.model {
		return c.Model
	}
	return c.Policy
}

// reads reports whether a communicator's ranks read the file. That is not known if they name no file, or one that this
// machine does not have. It may be a container's name of the same file.
func (w *waiter) reads(c *Communicator) (reads, known bool) {
	name := w.fileOf(c)
	if name == "" {
		return false, c.here()
	}
	if !filepath.IsAbs(name) { // relative to a folder on another machine, so of two files of one name it may be either
		return false, !strings.HasSuffix(w.file.path, string(filepath.Separator)+filepath.Clean(name))
	}
	real, exists, err := behindLinks(name)
	reads = err == nil && real == w.file.path
	return reads, reads || exists || c.here()
}

// goal is what a communicator's ranks find in their files from now on.
func (w *waiter) goal(c *Communicator) policyfile.Bundle {
	b := c.read
	written, other, otherFile := &b.Policy, &b.Model, watchedFile{c.Model, true}
	if w.file.model {
		written, other, otherFile = &b.Model, &b.Policy, watchedFile{c.Policy, false}
	}
	*written = policyfile.Source{Name: w.file.path, Text: w.text}
	// The ranks read both files when one changes.
	if text, err := otherFile.read(); otherFile.path != "" && err == nil {
		*other = policyfile.Source{Name: otherFile.path, Text: text}
	}
	return b
}

// byJob returns the targets of each job.
func (w *waiter) byJob() [][]*target {
	return cli.Groups(w.targets, func(t *target) string { return t.Rendezvous })
}

// openOf returns those that do not run on the file's new meaning yet.
func (w *waiter) openOf(some []*target) (open []*target) {
	for _, t := range some {
		if !t.done {
			open = append(open, t)
		}
	}
	return open
}

func (w *waiter) open() []*target { return w.openOf(w.targets) }

// count fills in what has become of the communicators and their jobs.
func (w *waiter) count() {
	w.Communicators, w.Jobs, w.NotSwitched = 0, []jobOutcome{}, []notSwitched{}
	for _, job := range w.byJob() {
		o := jobOutcome{jobName: job[0].jobName}
		for _, t := range job {
			if !t.ended {
				o.Communicators++
			}
			if !t.done {
				o.NotSwitched++
				w.NotSwitched = append(w.NotSwitched, t.notSwitched)
			}
		}
		if o.Communicators > 0 {
			w.Jobs = append(w.Jobs, o)
		}
		w.Communicators += o.Communicators
	}
	w.Switched = len(w.NotSwitched)+len(w.Unclear)+len(w.Unseen) == 0 && w.Error == ""
}

// pushPoll is the least time between two looks at whether communicators have switched.
const pushPoll = 250 * time.Millisecond

// wait returns when all have switched, when the rest never will, or when ctx ends. The
// rendezvous may be away for a while.
func (w *waiter) wait(ctx context.Context) (away error) {
	defer w.progress.Clear()
	pause := pushPoll
	for {
		select {
		case <-ctx.Done():
			return away
		case <-time.After(pause):
		}
		began := time.Now()
		all, err := w.look(ctx)
		pause = max(pushPoll, time.Since(began)) // many jobs are as many questions to a file server
		if err != nil {
			if ctx.Err() == nil {
				away = fmt.Errorf("%w; it is not known what becomes of the change", err)
			}
			continue
		}
		away = nil
		w.progress.Clear()
		if !w.follow(all) {
			return nil
		}
		w.progress.Show(cli.Step{Done: len(w.targets) - len(w.open()), Of: len(w.targets),
			Unit: "communicators", Now: "waiting for the others to switch"})
	}
}

// follow takes up what a look has found, and reports whether anything may still change.
func (w *waiter) follow(all []*Communicator) (hope bool) {
	w.refusals = map[refusalKey]refusedFile{}
	w.addLateTargets(all)
	w.reportUnknown()
	now := map[string]*Communicator{}
	for _, c := range all {
		now[key(c)] = c
	}
	jobs := w.byJob()
	for _, t := range w.open() {
		c := now[t.key]
		switch {
		case c == nil && !w.sees(t.Rendezvous):
			t.Why = "its rendezvous " + t.Rendezvous + " cannot be looked at any more"
		case c == nil || c.Ended || len(c.left()) > 0:
			t.done, t.ended = true, true
			if len(jobs) == 1 {
				fmt.Fprintf(w.out, "%s has ended\n", t)
			}
		default:
			if w.judge(t, c); t.done && len(jobs) == 1 {
				fmt.Fprintf(w.out, "%s: version %.12s is agreed on, from %s on, after %.1f s\n", t, c.Version,
					lastSwitch(c), time.Since(w.began).Seconds())
			}
		}
		hope = hope || !t.done && !t.willNotSwitch
	}
	for _, job := range jobs {
		if name := job[0].Rendezvous; len(w.openOf(job)) == 0 && !w.reported[name] {
			w.reported[name] = true
			if len(jobs) > 1 {
				w.reportDone(job)
			}
		}
	}
	return hope
}

// addLateTargets adds communicators that were created on the file as it was, between the first look and the writing.
func (w *waiter) addLateTargets(all []*Communicator) {
	for _, t := range w.classify(all) {
		if t.done {
			continue // created on the new text
		}
		w.targets = append(w.targets, t)
		w.reported[t.Rendezvous] = false
		fmt.Fprintf(w.out, "%s was created meanwhile, on the earlier version: push waits for it, too\n", t)
	}
}

// reportDone says that a job has switched, or has ended.
func (w *waiter) reportDone(job []*target) {
	runs := 0
	for _, t := range job {
		if !t.ended {
			runs++
		}
	}
	if runs == 0 {
		fmt.Fprintf(w.out, "job %s has ended\n", job[0].job())
		return
	}
	fmt.Fprintf(w.out, "job %s has switched, with %s, after %.1f s\n", job[0].job(),
		wording.Plural(runs, "communicator"), time.Since(w.began).Seconds())
}

// reportUnknown says what push cannot judge, each once.
func (w *waiter) reportUnknown() {
	for _, what := range w.Unseen {
		if !w.reported[what] {
			w.reported[what] = true
			writeUnseen(w.out, []string{what})
		}
	}
	var unclear []commName
	for _, c := range w.Unclear {
		if !w.reported[c.Rendezvous+c.Communicator] {
			w.reported[c.Rendezvous+c.Communicator] = true
			unclear = append(unclear, c)
		}
	}
	if n := len(unclear); n > 0 {
		fmt.Fprintf(w.out, "%s a file that this machine cannot see, which may be this one: %s\n",
			wording.Plural(n, "communicator")+wording.Verb(n, " reads", " read"), listOf(unclear))
	}
}

// lastSwitch names the call from which on the version is in force.
func lastSwitch(c *Communicator) string {
	at := "the start"
	for _, x := range c.Changes {
		if x.State == committed {
			at = fmt.Sprintf("call %d", x.Decision.At)
		}
	}
	return at
}

// maxVetoes is the number of refusals after which ranks give a version up.
const maxVetoes = 5

// judge notes how far a communicator has come.
func (w *waiter) judge(t *target, c *Communicator) {
	if c.pending == nil && w.reached(t, c) {
		t.done = true
		return
	}
	vetoes := 0
	var last *change
	for _, x := range c.refused {
		if x.K > t.before {
			last = x
			if why := x.Decision.Abort; why == agree.CannotStage || why == agree.OtherBuild {
				vetoes++
			}
		}
	}
	var f finding
	switch dead := c.lives(identity.Dead); {
	case c.Frozen:
		t.willNotSwitch, f = true, c.frozen.finding
	case len(dead) > 0:
		t.willNotSwitch, f = true, finding{names(dead), "end the job"}
	case len(c.Members) < c.Ranks:
		f.Why = fmt.Sprintf("%d of %s have joined", len(c.Members), wording.Plural(c.Ranks, "rank"))
	case c.pending != nil:
		f = pendingFinding(c)
	case last != nil:
		t.willNotSwitch, f = vetoes >= maxVetoes, last.finding
	default:
		f = w.notProposed(c)
	}
	if stopped := c.lives(identity.Stopped); len(stopped) > 0 && !t.willNotSwitch {
		f = finding{f.Why + ".\nStopped by a signal or a debugger: " + names(stopped), resume(stopped)}
	}
	t.Why = f.String()
}

// notProposed says why no rank may have proposed the change.
func (w *waiter) notProposed(c *Communicator) finding {
	if bad := c.refusedFiles(w.refusals); len(bad) > 0 {
		return finding{fmt.Sprintf("its ranks refuse %s: %s", bad[0].File, bad[0].Why), bad[0].Remedy}
	}
	f := finding{"no rank has proposed the change",
		"see the ranks' log for what they say of " + w.file.path + "; over NFS they may see it late"}
	if !c.here() && !c.Newest.IsZero() {
		f.Why += ", and nothing was recorded since " + c.Newest.Format("2006-01-02 15:04")
		f.Remedy = fmt.Sprintf("if the job has ended, remove what it left (tunefit gc --rendezvous %s --older-than "+
			"24h, or the folder); else %s", cli.ShellWord(c.Rendezvous), f.Remedy)
	}
	if found := c.Comparison; found != nil {
		f.Why += fmt.Sprintf("; the job compares %s with %s: %s", found.A.Name, found.B.Name, found.Verdict())
	}
	return f
}

// reached reports that the version in force means the same as the goal.
func (w *waiter) reached(t *target, c *Communicator) bool {
	if c.files == nil {
		return false
	}
	same, known := t.same[c.Content]
	if !known {
		same = policyfile.SameEffect(*c.files, t.goal, os.Getenv)
		t.same[c.Content] = same
	}
	return same
}
