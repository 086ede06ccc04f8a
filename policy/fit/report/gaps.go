package report

// What was not measured, and what to do about it: the page's list of gaps and its next steps.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// GapKind is a kind of gap in what was measured.
type GapKind int8

// In the order of what helps most.
const (
	DefaultMissing GapKind = iota
	DefaultGaps            // the default was measured at some sizes only
	NothingElse            // only the default was measured
	Restless               // repetitions differ much
	Contradictory          // two logs differ much
	Varying                // times of several logs differ at some sizes
	Edge                   // the fastest number of channels is the largest or the smallest that was tried
	Aliases                // several names, equal times
	OneConfig
	OneSize
	NotOffered  // NCCL_ALGO and NCCL_PROTO get it, and a tuner does not
	NotMeasured // all that no log has
)

// advice is what to do about each kind of gap. Nothing can be done about NotMeasured.
var advice = [...]string{
	DefaultMissing: "Measure the default: run nccl-tests once as jobs run, without NCCL_ALGO and NCCL_PROTO",
	DefaultGaps:    "Measure the default at the sizes where it is missing",
	NothingElse:    "Measure configurations: NCCL_ALGO, NCCL_PROTO and NCCL_MIN_NCHANNELS = NCCL_MAX_NCHANNELS",
	Restless:       "Measure on a quiet machine, and check that all times are microseconds",
	Contradictory:  "Find out which of two sweeps is right, leave the other one out, or measure both again",
	Varying:        "Measure the sizes whose times vary more often (nccl-tests -n), on a quiet machine",
	Edge:           "Measure other channel counts: the fastest is the largest or the smallest that was tried",
	Aliases:        "Measure once more where times coincide: NCCL probably took one path under several names",
	OneConfig:      "Measure a second configuration",
	OneSize:        "Measure more sizes",
	NotOffered:     "Measure with the library, as tunefit sweep does: it forces only what a tuner can have",
}

// Gap is one thing that a model does not know, and why.
type Gap struct {
	Kind  GapKind
	Group string // empty: of all
	Text  string
}

// String is the gap in one line.
func (g Gap) String() string {
	if g.Group == "" {
		return g.Text
	}
	return g.Group + ": " + g.Text
}

// Gaps lists what a model does not know, group by group.
func Gaps(report *fit.Report) []Gap {
	var all []Gap
	for i := range report.Groups {
		all = append(all, groupGaps(&report.Groups[i])...)
	}
	return append(all, Gap{NotMeasured, "", "other node counts, ranks per node, sizes and channel counts"})
}

// restlessNoise between repetitions is more than any machine should have.
const restlessNoise = 0.1

func groupGaps(r *fit.GroupReport) (all []Gap) {
	g := r.Group
	add := func(kind GapKind, format string, args ...any) {
		all = append(all, Gap{kind, g.Key.String(), fmt.Sprintf(format, args...)})
	}
	for _, c := range g.Contradictions {
		if c.Varies() {
			add(Varying, "times at %s vary from run to run, by a factor of %.2g at %d of the %s that several logs "+
				"have; the model takes medians", c.Sizes, c.Factor, c.Apart,
				wording.Plural(c.Common, "point"))
			continue
		}
		add(Contradictory,
			"%s and %s contradict each other: %d of the %d times that both have are apart, by a factor of %.2g; the "+
				"model takes medians", c.A, c.B, c.Apart, c.Common, c.Factor)
	}
	if len(g.NotOffered) > 0 {
		add(NotOffered, "not available on this machine: %s (only NCCL_ALGO and NCCL_PROTO get it, no tuner "+
			"does; its times are left out)", cellNames(g.NotOffered))
	}
	if r.DefaultOnly && g.Unsettable {
		add(NotOffered, "nothing but the default was measured with channels that a tuner can have; the model abstains")
		return all
	}
	if r.DefaultOnly {
		add(NothingElse, "%s; the model abstains", g.OnlyDefault())
		return all
	}
	sizes := g.Sizes()
	switch {
	case len(g.Default) == 0:
		add(DefaultMissing,
			"the default was not measured; the model decides only where it beats the best that NCCL's default "+
				"can be")
	case len(g.Default) < len(sizes):
		add(DefaultGaps, "the default was measured at %d of %d sizes", len(g.Default), len(sizes))
	}
	if g.Noise > restlessNoise && len(g.Contradictions) == 0 {
		add(Restless,
			"repetitions differ by %.0f %%; measure on a quiet machine, and check that all times are microseconds",
			100*g.Noise)
	}
	if len(g.Configs()) == 1 {
		add(OneConfig, "one configuration, nothing to choose from")
	}
	if len(sizes) == 1 {
		add(OneSize, "one size, %s; the model abstains at all others", nccl.FormatBytes(sizes[0]))
	}
	if r.Edge > 0 {
		add(Edge, "%d channels are the fastest at some sizes, and the most or the fewest that were tried", r.Edge)
	}
	if aliases := fit.DescribeAliases(g.Aliases); aliases != "" {
		add(Aliases,
			"the labels may be wrong where different names took equal times; the model believes them, measure once "+
				"more: %s", aliases)
	}
	return all
}

func cellNames(cells []nccl.Cell) string {
	names := make([]string, len(cells))
	for i, c := range cells {
		names[i] = c.String()
	}
	return strings.Join(names, ", ")
}

// NextStep is something to do next.
type NextStep struct {
	Do    string   `json:"do"`
	Where string   `json:"where"`                // the groups, or a few of them and how many more
	All   []string `json:"everywhere,omitempty"` // every group, if Where names only some
}

// fewGroups are named in a line.
const fewGroups = 3

// steps says what to do next: how to use the result, then how to close its gaps.
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
		all = append(all, NextStep{Do: "Keep NCCL's default: no row would improve on the default for sure"})
	}
	return append(all, Steps(gaps)...)
}

// Steps says how to close gaps, in the order of what helps most.
func Steps(gaps []Gap) (all []NextStep) {
	byKind := [len(advice)][]string{}
	for _, g := range gaps {
		if g.Group != "" && !slices.Contains(byKind[g.Kind], g.Group) {
			byKind[g.Kind] = append(byKind[g.Kind], g.Group)
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
