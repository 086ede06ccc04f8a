package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// fact is a line of a table of two columns.
type fact struct{ Name, Value string }

// aboutFacts are what a reader asks first.
func aboutFacts(in Input) []fact {
	p := &in.File.Provenance
	var gpus, begun []string
	for _, m := range p.Machines {
		if m.GPU != "" && !slices.Contains(gpus, m.GPU) {
			gpus = append(gpus, m.GPU)
		}
		if m.Begun != "" && !slices.Contains(begun, m.Begun) {
			begun = append(begun, m.Begun)
		}
	}
	slices.Sort(begun)
	when := "not known"
	if n := len(begun); n > 1 {
		when = begun[0] + " to " + begun[n-1]
	} else if n == 1 {
		when = begun[0]
	}
	var under []string
	for _, c := range in.Set.Under() {
		under = append(under, c.String())
	}
	return []fact{
		{"GPU", cmp.Or(strings.Join(gpus, ", "), "not known")},
		{"NCCL", cmp.Or(p.NCCL, "not known (--made-with VERSION)")},
		{"measured under", cmp.Or(strings.Join(under, "; "), "not known")}, {"measured", when},
		{"measurements", fmt.Sprint(in.Set.Used)},
	}
}
