package livejobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// todo begins the line that says what to do.
const todo = ".\n  What to do: "

// notes says what a communicator's line in the table has no room for.
func notes(c *communicator) (notes []string) {
	say := func(format string, args ...any) {
		for i, arg := range args { // a record's lines stay below this note, and look like no other
			switch arg.(type) {
			case string, error:
				args[i] = strings.ReplaceAll(fmt.Sprint(arg), "\n", "\n  ")
			}
		}
		notes = append(notes, fmt.Sprintf(format, args...))
	}
	switch left := c.left(); {
	case c.over() && c.Newest.IsZero():
		say("all its ranks have ended")
	case c.over():
		say("all its ranks have ended; its last record is of %s", moment(c.Newest))
	case len(c.members) < c.Ranks:
		say("%d of %s have joined, and no change can come before all have"+todo+"if this does not pass, look for \"cannot change during the run\" in the logs of the others", len(c.members), cli.CountOf(c.Ranks, "rank"))
	case len(left) > 0:
		say("%d of %s have ended it", len(left), cli.CountOf(c.Ranks, "rank"))
	}
	if c.pending != nil && !c.over() && c.asked() {
		say("%s", pendingNote(c))
	}
	if c.frozen != nil {
		why, remedy := inWords(c, c.frozen.Decision)
		say("keeps version %.12s for good since change %d was refused%s: %s"+todo+"%s", c.version.Meaning, c.frozen.K, atTime(c.frozen.Decided), why, remedy)
	} else if n := len(c.refused); n > 0 && !c.over() {
		last := c.refused[n-1]
		why, remedy := inWords(c, last.Decision)
		to, times := "", ""
		if last.Proposal != nil {
			to = fmt.Sprintf(" to version %.12s", last.Proposal.Meaning)
		}
		// The records of earlier ones may be removed.
		if n := last.K - c.inForce; n > 1 {
			times = fmt.Sprintf(" (refusal %d since version %.12s came)", n, c.version.Meaning)
		}
		say("change %d%s was refused%s%s: %s"+todo+"%s", last.K, to, atTime(last.Decided), times, why, remedy)
	}
	if found, err := comparison(c); err != nil {
		say("its comparison cannot be read: %v", err)
	} else if found != nil {
		say("%s against %s, by turns: %s (%s)", found.A.Name, found.B.Name, found.Verdict(), found.Effort())
	}
	for _, err := range c.Faults {
		say("a record cannot be read: %v", err)
	}
	return notes
}

// comparison is what the job compares, or has compared last; nil for nothing.
func comparison(c *communicator) (*trial.Finding, error) {
	if c.Note == nil {
		return nil, nil
	}
	var found trial.Finding
	err := json.Unmarshal(c.Note, &found)
	found.A.Name, found.B.Name = clipped(found.A.Name), clipped(found.B.Name)
	return &found, err
}

func pendingNote(c *communicator) string {
	p := c.pending
	proposer := fmt.Sprintf("slot %d", p.Proposal.Slot)
	for _, m := range c.members {
		if m.slot == p.Proposal.Slot {
			proposer = names([]member{m})
		}
	}
	note := fmt.Sprintf("change %d to version %.12s, proposed%s by %s. Ranks acknowledge at their call %d and change at call %d",
		p.K, p.Proposal.Meaning, atTime(p.Proposed), proposer, p.Proposal.Check, p.Proposal.Switch)
	missing := c.missing()
	switch {
	case len(missing) == 0:
		return note
	case len(missing) == len(c.members):
		note += ".\n  No rank has acknowledged yet"
	default:
		note += ".\n  Not acknowledged: " + names(missing)
	}
	// What to do then is said of the process.
	if slices.ContainsFunc(missing, func(m member) bool { return m.gone() || m.state == identity.Stopped }) {
		return note
	}
	return note + todo + "nothing while the job makes calls; a communicator that makes none changes when it does"
}

func atTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " at " + moment(t)
}

// processNotes says which processes keep their communicators from anything.
func processNotes(all []communicator) (notes []string) {
	for _, state := range []identity.State{identity.Dead, identity.Stopped} {
		var processes, pids, comms []string
		seen := map[string]bool{}
		for i := range all {
			some := all[i].which(func(m member) bool { return m.state == state && !m.left })
			if all[i].over() || len(some) == 0 {
				continue
			}
			comms = append(comms, all[i].name())
			for _, m := range some {
				if process := m.String(); !seen[process] {
					seen[process] = true
					processes, pids = append(processes, process), append(pids, fmt.Sprint(m.process.PID))
				}
			}
		}
		switch {
		case len(processes) == 0:
		case state == identity.Dead:
			notes = append(notes, fmt.Sprintf("dead: %s, of %s. The policy stays as it is there, and the next collective hangs or fails"+todo+"end the job, if it does not end by itself", few(processes), few(comms)))
		default:
			notes = append(notes, fmt.Sprintf("stopped by a signal or a debugger: %s, of %s. Changes wait or are refused"+todo+"kill -CONT %s", few(processes), few(comms), strings.Join(pids, " ")))
		}
	}
	return notes
}

// fileNotes says of each file what keeps its ranks from taking it.
func fileNotes(all []communicator) (notes []string) {
	checked := map[string]string{}
	for i := range all {
		c := &all[i]
		if !c.here() { // what ranks elsewhere read is another file, whatever its name
			continue
		}
		policy, model := c.paths()
		for _, f := range []watchedFile{{policy, false}, {model, true}} {
			if _, done := checked[f.path]; done || f.path == "" {
				continue
			}
			checked[f.path] = f.note()
		}
	}
	for _, path := range slices.Sorted(maps.Keys(checked)) {
		if checked[path] != "" {
			notes = append(notes, strings.TrimRight(checked[path], "\n"))
		}
	}
	return notes
}
