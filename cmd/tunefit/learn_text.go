package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/learning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// title names the communicator.
func title(l learned) string {
	text := strings.TrimSpace(l.Comm.String() + " " + l.Name)
	if l.alike > 1 {
		text += fmt.Sprintf(" (%d alike)", l.alike)
	}
	return text
}

// armVerdict says what is known of the i-th arm, in words.
func armVerdict(f trial.Factor, i int) string {
	a := f.Arms[i]
	switch {
	case i == 0 && !f.Known():
		return "NCCL's choice, hardly tried: the others' figures may all be off by as much"
	case i == 0:
		return "NCCL's choice"
	case a.Dropped == "worse" && a.Effect < -trial.Surely*a.Error:
		return "faster, but not the fastest: dropped"
	case a.Dropped == "worse":
		return "slower: dropped"
	case a.Dropped != "":
		return a.Dropped + ": dropped"
	case !a.Estimated():
		return "not tried yet"
	case a.Effect < -trial.Surely*a.Error && f.Known():
		return "faster"
	case f.Settled:
		return "no gain is proven"
	}
	return "open"
}

// kinds returns the first communicator of each kind, which counts the others.
func kinds(all []learned) (first []learned) {
	for i, l := range all {
		if i == 0 || l.compareKind(all[i-1]) != 0 {
			first = append(first, l)
		}
		first[len(first)-1].alike++
	}
	return first
}

func writeLearned(w io.Writer, all []learned) error {
	for i := range all {
		line := learning.Headline(all[i].Evidence)
		if len(all) > 1 {
			line = title(all[i]) + ": " + line
		}
		fmt.Fprintln(w, line)
	}
	for _, l := range kinds(all) {
		e := l.Evidence
		fmt.Fprintf(w, "\n%s, NCCL %s, machine %s, %s to %s: %s\n", title(l), cmp.Or(e.NCCL, "not known"),
			cmp.Or(e.Machine, "not known"), e.Began.Format("2006-01-02 15:04"), e.At.Format("2006-01-02 15:04"),
			learning.Standing(e))
		t := cli.NewTable(w)
		if len(e.Factors) > 0 {
			t.Row("collective", "size", "calls a step", "tried", "step time", "95 %", "ms a step", "blocks", "")
		}
		for _, f := range e.Factors {
			for j, a := range f.Arms {
				cells := []any{"", "", "", a.Config, "-", "-", "-", a.Blocks, armVerdict(f, j)}
				if j == 0 {
					cells[0], cells[1] = f.Coll, commspec.SizeRange(f.Min, f.Max)
					cells[2] = fmt.Sprintf("%.4g", f.CallsPerStep)
				} else if a.Estimated() {
					cells[4], cells[5] = learning.Percent(a.Effect), learning.Range(a.Effect, a.Error)
					cells[6] = fmt.Sprintf("%+.1f", 1e3*a.Effect*e.StepSeconds)
				}
				t.Row(cells...)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, why := range e.LeftOut {
			fmt.Fprintf(w, "not tried: %s\n", why)
		}
	}
	return nil
}
