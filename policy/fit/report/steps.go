package report

import (
	"fmt"
	"slices"
	"strings"
)

// NextStep is something to do next.
type NextStep struct {
	Do    string   `json:"do"`
	Where string   `json:"where"`                // a few groups, or how many
	All   []string `json:"everywhere,omitempty"` // every group, where Where names but a few
}

// fewGroups are named in a line.
const fewGroups = 3

// steps are to use what there is, then Steps.
func steps(in Input, gaps []Gap) []NextStep {
	var all []NextStep
	switch {
	case in.Set.Simulated > 0:
		all = append(all, NextStep{Do: "Measure your cluster. These numbers are simulated and say nothing about it"})
	case len(in.Rows) > 0:
		all = append(all,
			NextStep{
				Do: fmt.Sprintf("Use the policy: save its %d rows (below, or tunefit fit … --csv tuner.csv) where "+
					"every rank sees the file, and set NCCL_TUNER_CONFIG_FILE to it", len(in.Rows))})
	default:
		all = append(all, NextStep{Do: "Keep NCCL's choice: no row would improve on the default for sure"})
	}
	return append(all, Steps(gaps)...)
}

// Steps are to close gaps, those first that help most.
func Steps(gaps []Gap) (all []NextStep) {
	byKind := [len(advice)][]string{}
	for _, f := range gaps {
		if f.Group != "" && !slices.Contains(byKind[f.Kind], f.Group) {
			byKind[f.Kind] = append(byKind[f.Kind], f.Group)
		}
	}
	for kind, groups := range byKind {
		if len(groups) == 0 {
			continue
		}
		s := NextStep{Do: advice[kind], Where: strings.Join(groups, ", ")}
		if len(groups) > fewGroups {
			s.Where = fmt.Sprintf("%s and %d more", strings.Join(groups[:fewGroups], ", "), len(groups)-fewGroups)
			s.All = groups
		}
		all = append(all, s)
	}
	return all
}
