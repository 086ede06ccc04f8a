package report

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// Step is something to do next.
type Step struct {
	Do    string
	Where string   // a few groups, or how many
	All   []string // every group, where Where names but a few
}

// fewGroups are named in a line.
const fewGroups = 3

// steps are to use what there is, then Steps.
func steps(in Input, findings []Finding) []Step {
	var all []Step
	simulated := in.Set.Simulated > 0
	switch {
	case simulated:
		all = append(all, Step{Do: "Measure your cluster. These numbers are simulated and say nothing about it"})
	case len(in.Rows) > 0:
		all = append(all, Step{Do: fmt.Sprintf("Use the policy: save its %d rows (below, or tunefit fit … --csv tuner.csv) where every rank sees the file, and set NCCL_TUNER_CONFIG_FILE to it", len(in.Rows))})
	default:
		all = append(all, Step{Do: "Leave NCCL alone: no row would improve on the default for sure"})
	}
	return append(all, Steps(in.Report, findings)...)
}

// Steps are to close gaps, those first that help most.
func Steps(report *fit.Report, findings []Finding) (all []Step) {
	byKind := [len(advice)][]string{}
	for _, f := range findings {
		if have := byKind[f.Kind]; f.Group != "" && (len(have) == 0 || have[len(have)-1] != f.Group) {
			byKind[f.Kind] = append(have, f.Group)
		}
	}
	for kind, groups := range byKind {
		if len(groups) > 0 {
			s := Step{Do: advice[kind], Where: strings.Join(groups, ", ")}
			if len(groups) > fewGroups {
				s.Where = fmt.Sprintf("%s and %d more", strings.Join(groups[:fewGroups], ", "), len(groups)-fewGroups)
				s.All = groups
			}
			all = append(all, s)
		}
	}
	if n := report.Unvalidated; n > 0 {
		all = append(all, Step{Do: advice[Unvalidated], Where: fmt.Sprintf("%d groups were not", n)})
	}
	return all
}

// shortlistRow is a configuration to measure on communicators that were not.
type shortlistRow struct{ Group, Config, Sizes string }

const mostShortlist = 200

func shortlist(report *fit.Report) (rows []shortlistRow, more int) {
	for _, r := range report.Groups {
		if r.Group.Nodes == 1 {
			continue // says nothing about several nodes
		}
		for _, c := range r.Group.Shortlist() {
			if len(rows) == mostShortlist {
				more++
				continue
			}
			var sizes []string
			for _, b := range c.Sizes {
				sizes = append(sizes, nccl.FormatBytes(b))
			}
			rows = append(rows, shortlistRow{r.Group.Key.String(), c.Config.String(), strings.Join(sizes, " ")})
		}
	}
	return rows, more
}
