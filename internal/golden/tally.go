package golden

import (
	"fmt"
	"testing"
)

// Tally counts agreement per field and keeps the first disagreements as examples.
type Tally struct {
	order []string
	good  map[string]int
	all   map[string]int
	notes map[string][]string
}

// Check counts one value of a field; note tells how it differs.
func (a *Tally) Check(field string, ok bool, note func() string) {
	if a.good == nil {
		a.good, a.all, a.notes = map[string]int{}, map[string]int{}, map[string][]string{}
	}
	if a.all[field] == 0 {
		a.order = append(a.order, field)
	}
	a.all[field]++
	if ok {
		a.good[field]++
	} else if len(a.notes[field]) < 8 {
		a.notes[field] = append(a.notes[field], note())
	}
}

// Log prints the share of each field that agrees, and examples of what does not.
func (a *Tally) Log(t testing.TB) {
	for _, f := range a.order {
		t.Logf("%-32s %d of %d agree (%.2f %%)", f, a.good[f], a.all[f], 100*float64(a.good[f])/float64(a.all[f]))
		for _, n := range a.notes[f] {
			t.Logf("    %s", n)
		}
	}
}

// Failures counts the values that differ.
func (a *Tally) Failures() int {
	n := 0
	for f := range a.all {
		n += a.all[f] - a.good[f]
	}
	return n
}

// Same checks that two values are equal.
func Same[T comparable](a *Tally, field, where string, want, got T) {
	a.Check(field, want == got, func() string { return fmt.Sprintf("%s: NCCL %v, here %v", where, want, got) })
}
