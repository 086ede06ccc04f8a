package livejobs

import (
	"context"
	"errors"
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

// waiter waits until the communicators that read a file run on its new text. Each look at the records brings its
// outcome up to date (take), and what is new is said (report).
type waiter struct {
	*observer
	pushOutcome
	file       watchedFile // that the jobs read
	text       []byte      // its new one
	limit      time.Duration
	out        io.Writer
	progress   *cli.Progress
	began      time.Time
	targets    []*target // by job, in the order in which they were found
	met        int       // communicators of the last look, whatever they read
	otherFiles []string  // what the live ones of Others read
	said       map[string]bool
}

// target is a communicator that reads the file.
type target struct {
	notSwitched // until it is done
	key         string
	goal        policyfile.Bundle // what its ranks read now
	before      uint64            // the last change that was known when it was found
	same        map[string]bool   // by content digest: whether the content means the same as the goal
	version     string            // that is active, once it is done
	done        bool              // it runs on the goal, or has ended
	ended       bool
	never       bool // it never will
}

func newWaiter(rendezvous string, file watchedFile, out io.Writer) *waiter {
	o := newObserver(rendezvous)
	o.mayCome = true
	return &waiter{observer: o, file: file, out: out, progress: cli.NewProgress(io.Discard), said: map[string]bool{},
		pushOutcome: pushOutcome{File: file.path, Warnings: []string{}, NotSwitched: []notSwitched{},
			Unclear: []commName{}, Unseen: []string{}}}
}

// begin finds the communicators, before the file is written.
func (w *waiter) begin(ctx context.Context) error {
	all, err := w.look(ctx)
	if err != nil {
		return err
	}
	w.began = time.Now()
	w.take(all)
	return nil
}

// take takes up what a look has found, and reports whether anything may still change.
func (w *waiter) take(all []*Communicator) (hope bool) {
	w.met, w.Others, w.otherFiles, w.Unclear, w.Unseen = len(all), 0, nil, []commName{}, []string{}
	for _, err := range w.unseen {
		w.Unseen = append(w.Unseen, err.Error())
	}
	known := map[string]bool{}
	for _, t := range w.targets {
		known[t.key] = true
	}
	now := map[string]*Communicator{}
	for _, c := range all {
		key := c.Rendezvous + " " + c.Key
		if now[key] = c; known[key] || c.Ended || len(c.left()) > 0 { // no collective runs on it any more
			continue
		}
		switch reads, known := w.reads(c); {
		case !known:
			w.Unclear = append(w.Unclear, c.name())
		case reads: // perhaps created meanwhile, on the earlier text
			t := &target{notSwitched: notSwitched{commName: c.name()}, key: key, goal: w.goal(c),
				same: map[string]bool{}}
			if n := len(c.Changes); n > 0 {
				t.before = c.Changes[n-1].K
			}
			w.targets = append(w.targets, t)
		default:
			w.Others++
			if file := w.fileOf(c); file != "" {
				w.otherFiles = append(w.otherFiles, file)
			}
		}
	}
	w.Communicators, w.NotSwitched = 0, []notSwitched{}
	read := map[refusalKey]refusedFile{}
	for _, t := range w.targets {
		switch c := now[t.key]; {
		case t.done:
		case c == nil && !w.sees(t.Rendezvous):
			t.Why = "its rendezvous " + t.Rendezvous + " cannot be looked at any more"
		case c == nil || c.Ended || len(c.left()) > 0:
			t.done, t.ended = true, true
		default:
			w.judge(t, c, read)
		}
		if !t.ended {
			w.Communicators++
		}
		if !t.done {
			w.NotSwitched = append(w.NotSwitched, t.notSwitched)
			hope = hope || !t.never
		}
	}
	return hope
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

// maxVetoes is the number of refusals after which ranks give a version up.
const maxVetoes = 5

// judge notes how far a communicator has come. read has the files that were judged in this look.
func (w *waiter) judge(t *target, c *Communicator, read map[refusalKey]refusedFile) {
	if c.pending == nil && t.reached(c) {
		t.done, t.version = true, c.Version
		return
	}
	c.RefusedFiles = c.refusedFiles(read)
	s, vetoes := c.standing(), 0
	for _, x := range c.refused {
		if why := x.Decision.Abort; x.K > t.before && (why == agree.CannotStage || why == agree.OtherBuild) {
			vetoes++
		}
	}
	t.never = s.never || vetoes >= maxVetoes
	f := s.finding
	switch {
	case f.Why == "" || s.refusal != nil && s.refusal.K <= t.before && !s.never:
		f = w.notProposed(c)
	case s.refusal != nil:
		f = s.refusal.finding // without times: the same for many communicators
	}
	if stopped := c.lives(identity.Stopped); len(stopped) > 0 && !t.never {
		f = finding{f.Why + ".\nStopped by a signal or a debugger: " + names(stopped), resume(stopped)}
	}
	t.Why = f.String()
}

// notProposed says why no rank may have proposed the change.
func (w *waiter) notProposed(c *Communicator) finding {
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

// reached reports that the active version means the same as the goal.
func (t *target) reached(c *Communicator) bool {
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

// once prints a line, unless one with this key was printed.
func (w *waiter) once(key, format string, args ...any) {
	if !w.said[key] {
		w.said[key] = true
		fmt.Fprintf(w.out, format+"\n", args...)
	}
}

// report says what is new: what push cannot judge, and which jobs have switched or have ended.
func (w *waiter) report() {
	for _, what := range w.Unseen {
		w.once(what, "not looked at: %s", what)
	}
	if unclear := listOf(w.Unclear); unclear != "" {
		w.once(unclear, "%s: they read a file that this machine cannot see; it may be this one", unclear)
	}
	for _, job := range cli.Groups(w.targets, func(t *target) string { return t.Rendezvous }) {
		key := "job " + job[0].Rendezvous
		runs, open, version := 0, 0, ""
		for _, t := range job {
			switch {
			case !t.done:
				open++
			case !t.ended:
				runs, version = runs+1, t.version
			}
		}
		switch {
		case open > 0:
			delete(w.said, key)
		case runs == 0:
			w.once(key, "job %s has ended", job[0].job())
		default:
			w.once(key, "job %s: version %.12s is active in %s, after %.1f s", job[0].job(), version,
				wording.Plural(runs, "communicator"), time.Since(w.began).Seconds())
		}
	}
}

// wait waits for the communicators that read the file, and prints what comes of it. A job that began on the text of the
// moment before the file was written is among them.
func (w *waiter) wait(ctx context.Context) error {
	known, open := len(w.targets), len(w.NotSwitched)
	if w.Others > 0 {
		fmt.Fprintf(w.out, "not concerned: %s of other files: %s\n", wording.Plural(w.Others, "communicator"),
			few(distinct(w.otherFiles)))
	}
	if open > 0 {
		var jobs []commName
		for _, t := range w.NotSwitched {
			jobs = append(jobs, t.commName)
		}
		fmt.Fprintf(w.out, "%s to switch: %s\n", wording.Plural(open, "communicator")+wording.Verb(open, " has",
			" have"), listOf(jobs))
	}
	for _, t := range w.targets { // not of those that have nothing to do
		w.said["job "+t.Rendezvous] = true
	}
	w.report()
	if w.limit > 0 && (w.Written || open > 0) {
		until, end := context.WithTimeout(ctx, w.limit)
		defer end()
		if err := w.follow(until); err != nil {
			fmt.Fprintf(w.out, "%v; it is not known what becomes of the change\n", err)
			return cli.ErrUnseen
		}
	}
	blind := len(w.Unseen)+len(w.Unclear) > 0
	switch where := where(w.name); {
	case w.Communicators == 0 && blind:
		fmt.Fprintf(w.out, "of the jobs that were seen %s, none is known to read this file\n", where)
	case w.Communicators == 0:
		fmt.Fprintf(w.out, "no job that can change its policy while it runs reads this file %s: it takes effect when "+
			"a communicator is created\n%s", where, otherPlacesHint(w.name))
	case w.limit == 0 && open > 0:
		fmt.Fprintln(w.out, "tunefit status tells how it goes")
	case len(w.NotSwitched) > 0:
		if errors.Is(ctx.Err(), context.Canceled) {
			fmt.Fprintln(w.out, "interrupted; the jobs go on without push")
		}
		w.reportFailed()
		return cli.ErrFailed
	case open == 0 && len(w.targets) == known:
		fmt.Fprintf(w.out, "it means what is active already in %s: nothing changes\n",
			wording.Plural(w.Communicators, "communicator"))
	default:
		fmt.Fprintf(w.out, "%s on it\n", wording.Plural(w.Communicators, "communicator")+
			wording.Verb(w.Communicators, " runs", " run"))
	}
	if blind && w.limit > 0 {
		fmt.Fprintln(w.out, "so it is not known whether all jobs that read this file have switched; tunefit status "+
			"on their nodes, or as their user or root, tells")
		return cli.ErrUnseen
	}
	return nil
}

// follow looks until all have switched, the rest never will, or ctx ends. The rendezvous may be away for a while; away
// is what the last look says of that.
func (w *waiter) follow(ctx context.Context) (away error) {
	defer w.progress.Clear()
	const pushPoll = 250 * time.Millisecond
	w.poll(ctx, pushPoll, func(all []*Communicator, err error) bool {
		if away = err; err != nil {
			return true
		}
		hope := w.take(all)
		w.progress.Clear()
		w.report()
		w.progress.Show(cli.Step{Done: len(w.targets) - len(w.NotSwitched), Of: len(w.targets),
			Unit: "communicators", Now: "waiting for the others to switch"})
		return hope
	})
	return away
}

// reportFailed says of each job what has not switched and why, and then how many have not.
func (w *waiter) reportFailed() {
	for _, alike := range cli.Groups(w.NotSwitched, func(t notSwitched) string { return t.Rendezvous + "\n" + t.Why }) {
		var names []commName
		for _, t := range alike {
			names = append(names, t.commName)
		}
		fmt.Fprintf(w.out, "%s %s not switched: %s\n", listOf(names), wording.Verb(len(names), "has", "have"),
			alike[0].Why)
	}
	fmt.Fprintf(w.out, "%d of %s not switched; the file stays as it is now, and what can still change does so by "+
		"itself (tunefit status)\n", len(w.NotSwitched), wording.Plural(w.Communicators, "communicator")+
		wording.Verb(len(w.NotSwitched), " has", " have"))
}
