package main

import (
	"fmt"
	"regexp"
	"strings"
)

// claim is a figure of a page.
type claim struct {
	page, what string
	said       string // a regular expression whose group is the claim, in a line of the page that has what before it
	now        func(figures) string
}

// in returns the claim as the page says it, "" if it does not.
func (c claim) in(text string) string {
	m := regexp.MustCompile("(?m)^.*" + regexp.QuoteMeta(c.what) + c.said).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(m[1])
}

// ours is the first cell after the row's name in a table, all those of the tables on stores.
const (
	ours  = `[^|]*\|([^|]*)\|`
	cells = `(.*)\|`
)

const (
	costs = "docs/COSTS.md"
	more  = "docs/dev/EVIDENCE.md"
)

// claims are the figures of speed, size and memory that a run can measure. What was measured otherwise says so in its
// page.
var claims = []claim{
	{"README.md", "in about", ` (.* of its own)`, func(f figures) string {
		return fmt.Sprintf("%s with 10 rows, %s with 100 000", own(f, 10), own(f, 100_000))
	}},
	{more, "known call signature: fill the table, call, choose", ours, known("KnownChoose/rows=10/shapes=64")},
	{costs, "known call signature: fill the table, call, 10 rows", ours, known("Known/rows=10/shapes=64")},
	{more, "the same without choosing, with 1 000 rows", ours, known("Known/rows=1000/shapes=64")},
	{more, "the same with 10 000 rows", ours, known("Known/rows=10000/shapes=64")},
	{costs, "the same with 100 000 rows", ours, known("Known/rows=100000/shapes=64")},
	{more, "the same, 4096 call signatures in turn", ours, known("Known/rows=10000/shapes=4096")},
	{costs, "new call signature, 10 / 10 000 / 100 000 rows", ours,
		list(ns, "New/rows=10/this ns/op", "New/rows=10000/this ns/op",
			"New/rows=100000/this ns/op")},
	{more, "new call signature, 10 000 rows and a model", ours, list(ns, "New/rows=10000,model/this ns/op")},
	{costs, "dlopen and first init, 10 000 rows", ours, list(ns, "Load/rows=10000/this cpu-ns-first")},
	{costs, "later communicators, 10 000 rows", ours, list(ns, "Load/rows=10000/this cpu-ns-later",
		"Load/rows=10000,reload=new/this cpu-ns-later")},
	{costs, "an edit: from the save", ours, list(ns, "LiveSwitch/1000_calls_per_s s-median")},
	{costs, "idle, able to change", ours, list(number("%.1f ms"), "LiveIdle/live cpu-ms/s/process")},
	{costs, "threads", ours, list(number("%.0f"), "Load/rows=10/this threads", "Load/rows=100000/this threads")},
	{costs, "resident memory, 10 / 10 000 / 100 000 rows", ours,
		list(number("%.0f MB"), "Load/rows=10/this MB-resident",
			"Load/rows=10000/this MB-resident", "Load/rows=100000/this MB-resident",
			"Load/rows=100000,rested/this MB-resident")},
	{costs, "library", ours, list(number("%.1f MB"), "library MB")},
	{more, "Reading 10 000 rows", `(.*)\.`, func(f figures) string {
		one := f["ReadConditions/steps-1 cpu-ns/op"]
		few, many := f["ReadConditions/steps-100 cpu-ns/op"], f["ReadConditions/steps-10000 cpu-ns/op"]
		return ns(few-one) + " / " + ns(many-one)
	}},
	{more, "but false conditions tells apart", `(.*)\.`, list(ns, "DecideByCondition/all-overlap-1 cpu-ns/op",
		"DecideByCondition/all-overlap-100 cpu-ns/op")},
	{more, "communicator takes up to", `(.*)\.`, list(ns, "ForConditions/steps-1 cpu-ns/op",
		"ForConditions/steps-10000 cpu-ns/op")},
	{costs, "| 8 | 64 |", cells, simulation("8")},
	{costs, "| 64 | 512 |", cells, simulation("64")},
	{costs, "| 1024 | 8192 |", cells, simulation("1024")},
	{"docs/PROFILE.md", "a collective costs some", ` (\S+ us)`, list(ns, "Record/this ns/op")},
	{"docs/LIMITS.md", "remembers some 4000 call signatures", `, in (.*);`, list(number("%.2f MiB"), "Cache/this MiB")},
}

// ns writes nanoseconds in the unit that pages use.
func ns(v float64) string {
	switch {
	case v < 1e3:
		return fmt.Sprintf("%.3g ns", v)
	case v < 1e6:
		return fmt.Sprintf("%.3g us", v/1e3)
	case v < 1e9:
		return fmt.Sprintf("%.3g ms", v/1e6)
	}
	return fmt.Sprintf("%.3g s", v/1e9)
}

func number(format string) func(float64) string {
	return func(v float64) string { return fmt.Sprintf(format, v) }
}

// list writes figures side by side.
func list(write func(float64) string, names ...string) func(figures) string {
	return func(f figures) string {
		var all []string
		for _, name := range names {
			v, ok := f[name]
			if strings.HasSuffix(name, " s-median") {
				v *= 1e9
			}
			text := write(v)
			if !ok {
				text = "not measured"
			}
			all = append(all, text)
		}
		return strings.Join(all, " / ")
	}
}

// known writes what a known shape takes with this tuner, the other one and none.
func known(name string) func(figures) string {
	return func(f figures) string {
		text := fmt.Sprintf("%s (%.1fx)", ns(f[name+"/this ns/op"]), f[name+"/this x-empty"])
		if other, ok := f[name+"/peer ns/op"]; ok {
			text += fmt.Sprintf("; linear scan %s (%.1fx)", ns(other), f[name+"/peer x-empty"])
		}
		return text + "; empty " + ns(f[name+"/empty ns/op"])
	}
}

// own is what a known shape takes beyond an empty tuner.
func own(f figures, rows int) string {
	name := fmt.Sprintf("Known/rows=%d/shapes=64/", rows)
	return ns(f[name+"this ns/op"] - f[name+"empty ns/op"])
}

func simulation(nodes string) func(figures) string {
	return func(f figures) string {
		name := "simulated/" + nodes
		return fmt.Sprintf("%.0f, %.0f, %.0f s", f[name+" idle"], f[name+" edit"], f[name+" s"])
	}
}
