package livejobs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// waiter waits until the communicators that read a file run on its new text.
type waiter struct {
	*observer
	pushOutcome
	file    watchedFile // as written
	text    []byte
	out     io.Writer
	targets []*target
	began   time.Time
}

func newWaiter(rendezvous string, file watchedFile, text []byte, out io.Writer) *waiter {
	return &waiter{observer: newObserver(rendezvous), file: file, text: text, out: out,
		pushOutcome: pushOutcome{File: file.path, NotSwitched: []notSwitched{}, Unclear: []string{},
			Unseen: []string{}}}
}

// target is a communicator that reads the file.
type target struct {
	notSwitched // until it is done
	key         string
	goal        policyfile.Bundle // what its ranks read now
	before      uint64            // the last change that was known before the file was written
	same        map[string]bool   // by content digest: whether the content means the same as the goal
	done        bool              // it runs on the goal, or has ended
	ended       bool
	hopeless    bool // it never will
}

func key(c *Communicator) string {
	return c.Rendezvous + " " + c.records.Key
}

// prepare finds the communicators, before the file is written.
func (w *waiter) prepare(ctx context.Context) error {
	all, err := w.look(ctx)
	if err != nil {
		return err
	}
	w.began = time.Now()
	for _, err := range w.unseen {
		w.Unseen = append(w.Unseen, err.Error())
	}
	for _, c := range all {
		reads, known := w.reads(c)
		switch {
		case c.Ended || len(c.left()) > 0: // no collective runs on it any more
		case !known:
			w.Unclear = append(w.Unclear, c.Name)
		case !reads:
			w.Others++
		case !c.asked():
			w.OneRank++
		default:
			t := &target{notSwitched: notSwitched{Communicator: c.Name}, key: key(c), goal: w.goal(c),
				same: map[string]bool{}}
			if n := len(c.Changes); n > 0 {
				t.before = c.Changes[n-1].Number
			}
			w.judge(t, c)
			w.targets = append(w.targets, t)
		}
	}
	return nil
}

// reads reports whether a communicator's ranks read the file. That is not known if they name no file, or one that this
// machine does not have. It may be a container's name of the same file.
func (w *waiter) reads(c *Communicator) (reads, known bool) {
	name := c.Policy
	if w.file.model {
		name = c.Model
	}
	if name == "" {
		return false, c.here()
	}
	if !filepath.IsAbs(name) { // relative to a folder on another machine
		return strings.HasSuffix(w.file.path, string(filepath.Separator)+filepath.Clean(name)), true
	}
	real, exists, err := behindLinks(name)
	reads = err == nil && real == w.file.path
	return reads, reads || exists || c.here()
}

// goal is what a communicator's ranks find in their files from now on.
func (w *waiter) goal(c *Communicator) policyfile.Bundle {
	var b policyfile.Bundle
	if c.files != nil {
		b = *c.files
	}
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

// running counts the communicators that have not ended while they were waited for.
func (w *waiter) running() (n int) {
	for _, t := range w.targets {
		if !t.ended {
			n++
		}
	}
	return n
}

// open returns the communicators that do not run on the file's new meaning yet.
func (w *waiter) open() (open []*target) {
	for _, t := range w.targets {
		if !t.done {
			open = append(open, t)
		}
	}
	return open
}

// pushPoll is the time between two looks at whether communicators have switched.
const pushPoll = 250 * time.Millisecond

// wait returns when all have switched, when the rest never will, or when ctx ends. The
// rendezvous may be away for a while.
func (w *waiter) wait(ctx context.Context) (away error) {
	for {
		select {
		case <-ctx.Done():
			return away
		case <-time.After(pushPoll):
		}
		all, err := w.look(ctx)
		if err != nil {
			if ctx.Err() == nil {
				away = fmt.Errorf("%w; it is not known what becomes of the change", err)
			}
			continue
		}
		away = nil
		now := map[string]*Communicator{}
		for _, c := range all {
			now[key(c)] = c
		}
		hope := false
		for _, t := range w.open() {
			c := now[t.key]
			if c == nil || c.Ended || len(c.left()) > 0 {
				t.done, t.ended = true, true
				fmt.Fprintf(w.out, "%s has ended\n", t.Communicator)
				continue
			}
			if w.judge(t, c); t.done {
				fmt.Fprintf(w.out, "%s: version %.12s is agreed on, from %s on, after %.1f s\n", t.Communicator,
					c.Version, lastSwitch(c), time.Since(w.began).Seconds())
			}
			hope = hope || !t.done && !t.hopeless
		}
		if !hope {
			return nil
		}
	}
}

// lastSwitch names the call from which on the version is in force.
func lastSwitch(c *Communicator) string {
	at := "the start"
	for _, x := range c.Changes {
		if x.State == committed {
			at = fmt.Sprintf("call %d", x.Switch)
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
		if x.Number > t.before {
			last = x
			if x.Reason == agree.CannotStage || x.Reason == agree.OtherBuild {
				vetoes++
			}
		}
	}
	switch dead := c.lives(identity.Dead); {
	case c.Frozen:
		t.hopeless, t.Why = true, c.frozen.Why+todo+c.frozen.Remedy
	case len(dead) > 0:
		t.hopeless, t.Why = true, names(dead)+todo+"end the job"
	case len(c.Members) < c.Ranks:
		t.Why = fmt.Sprintf("%d of %s have joined", len(c.Members), plural.Of(c.Ranks, "rank"))
	case c.pending != nil:
		t.Why = pendingNote(c)
	case last != nil:
		t.hopeless, t.Why = vetoes >= maxVetoes, last.Why+todo+last.Remedy
	default:
		t.Why = "no rank has proposed the change" + todo + "see the ranks' log for what they say of " + w.file.path +
			"; over NFS they may see it late"
	}
	if stopped := c.lives(identity.Stopped); len(stopped) > 0 {
		t.Why += ".\n  Stopped by a signal or a debugger: " + names(stopped)
	}
}

// reached reports that the version in force means the same as the goal.
func (w *waiter) reached(t *target, c *Communicator) bool {
	if c.files == nil {
		return false
	}
	same, known := t.same[c.Content]
	if !known {
		same = policyfile.SameMeaning(*c.files, t.goal, os.Getenv)
		t.same[c.Content] = same
	}
	return same
}
