package livejobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// todo begins the line that says what to do.
const todo = ".\n  What to do: "

// notes returns what a person should know of a communicator beyond its line in the table.
func notes(c *Communicator) (notes []string) {
	say := func(format string, args ...any) {
		for i, arg := range args { // a record with several lines must not look like other notes
			switch arg.(type) {
			case string, error:
				args[i] = strings.ReplaceAll(fmt.Sprint(arg), "\n", "\n  ")
			}
		}
		notes = append(notes, fmt.Sprintf(format, args...))
	}
	switch left := c.left(); {
	case c.Ended && c.Newest.IsZero():
		say("all its ranks have ended")
	case c.Ended:
		say("all its ranks have ended; its last record is of %s", moment(c.Newest))
	case len(c.Members) < c.Ranks:
		say("%d of %s have joined, and no change can come before all have"+todo+
			"if this does not pass, look for \"cannot change during the run\" in the logs of the others",
			len(c.Members), wording.Plural(c.Ranks, "rank"))
	case len(left) > 0:
		say("%d of %s have ended it", len(left), wording.Plural(c.Ranks, "rank"))
	}
	if c.changes() {
		say("%s", pendingNote(c))
	}
	if c.frozen != nil {
		say("keeps version %.12s for good since change %d was refused%s: %s"+todo+"%s", c.Version, c.frozen.K,
			atTime(c.frozen.Decided), c.frozen.Why, c.frozen.Remedy)
	} else if n := len(c.refused); n > 0 && !c.Ended {
		last := c.refused[n-1]
		to, times := "", ""
		if last.Proposal != nil {
			to = fmt.Sprintf(" to version %.12s", last.Proposal.Meaning)
		}
		// Records of earlier refusals may be gone, so count by the number.
		if n := last.K - c.inForce; n > 1 {
			times = fmt.Sprintf(" (refusal %d since version %.12s came)", n, c.Version)
		}
		say("change %d%s was refused%s%s: %s"+todo+"%s", last.K, to, atTime(last.Decided), times, last.Why,
			last.Remedy)
	}
	if c.noComparison != nil {
		say("its comparison cannot be read: %v", c.noComparison)
	} else if found := c.Comparison; found != nil {
		say("%s against %s, by turns: %s (%s)", found.A.Name, found.B.Name, found.Verdict(), found.Effort())
	}
	if c.Learning != nil {
		say("it learns, %s. %s", LearningState(*c.Learning), LearningHeadline(*c.Learning))
	}
	for _, fault := range c.Faults {
		say("a record cannot be read: %s", fault)
	}
	return notes
}

func pendingNote(c *Communicator) string {
	p := c.pending.Proposal
	proposer := fmt.Sprintf("slot %d", p.Slot)
	if of := c.which(func(m member) bool { return m.Index == p.Slot }); len(of) > 0 {
		proposer = names(of)
	}
	note := fmt.Sprintf("change %d to version %.12s, proposed%s by %s. Ranks acknowledge at their call %d and change "+
		"at call %d",
		c.pending.K, p.Meaning, atTime(c.pending.Proposed), proposer, p.Check, p.Switch)
	missing := c.missing()
	switch {
	case len(missing) == 0:
		return note
	case len(missing) == len(c.Members):
		note += ".\n  No rank has acknowledged yet"
	default:
		note += ".\n  Not acknowledged: " + names(missing)
	}
	// processNotes says what to do about these.
	if slices.ContainsFunc(missing, func(m member) bool { return m.gone() || m.Life == identity.Stopped }) {
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

// processNotes names dead and stopped processes, which keep their communicators from changing.
func processNotes(all []*Communicator) (notes []string) {
	for _, state := range []identity.State{identity.Dead, identity.Stopped} {
		var processes, pids []string
		var comms []commName
		for _, c := range all {
			some := c.lives(state)
			if c.Ended || len(some) == 0 {
				continue
			}
			comms = append(comms, c.name())
			for _, m := range some {
				if process := m.String(); !slices.Contains(processes, process) {
					processes, pids = append(processes, process), append(pids, fmt.Sprint(m.PID))
				}
			}
		}
		switch {
		case len(processes) == 0:
		case state == identity.Dead:
			notes = append(notes,
				fmt.Sprintf("dead: %s, of %s. The policy stays as it is there, and the next collective hangs or fails"+
					todo+"end the job, if it does not end by itself", few(processes), listOf(comms)))
		default:
			notes = append(notes,
				fmt.Sprintf("stopped by a signal or a debugger: %s, of %s. Changes wait or are refused"+todo+
					"kill -CONT %s", few(processes), listOf(comms), strings.Join(pids, " ")))
		}
	}
	return notes
}

// fileNotes says of each file what keeps its ranks from taking it.
func fileNotes(all []*Communicator) (notes []string) {
	checked := map[string]string{}
	for _, c := range all {
		if !c.here() { // ranks elsewhere may read another file of the same name
			continue
		}
		for _, f := range []watchedFile{{c.Policy, false}, {c.Model, true}} {
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
