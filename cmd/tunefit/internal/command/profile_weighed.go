package command

import (
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
)

// writeWorth prints what decisions are worth to a job.
func writeWorth(out io.Writer, w *fit.Worth, job string, simulated bool) {
	fmt.Fprintf(out, "\n%s: %s\n", cli.Called(job), report.JobHeadline(w))
	for _, note := range report.JobCoverage(w) {
		fmt.Fprintf(out, "  %s\n", note)
	}
	if simulated && w.Covered > 0 {
		fmt.Fprintln(out, "  what was measured here is simulated in part or whole: this says nothing about the job")
	}
	if w.Covered == 0 {
		return
	}
	tw := cli.NewTable(out)
	tw.Row("in the job", "default", "policy", "best", "policy / default", "policy / best", "covered")
	parts := w.Parts
	if len(parts) > 1 {
		parts = append([]fit.WorthPart{w.WorthPart}, parts...)
	}
	for _, p := range parts {
		name := "all"
		if p.Ranks > 0 {
			name = p.Key.String()
		}
		tw.Row(name, profile.Duration(p.Default), profile.Duration(p.Policy), profile.Duration(p.Best),
			fmt.Sprintf("%.3f", p.Policy/p.Default), fmt.Sprintf("%.3f", p.Policy/p.Best),
			cli.Percent(p.Covered/w.Total))
	}
	tw.Flush()
}

// worthJSON is what decisions are worth to a job, for programs.
type worthJSON struct {
	Headline string `json:"headline"`
	PerStep  bool   `json:"per_step"` // times are per step, else of the whole recording
	ShareOf  string `json:"share_of"` // time, bytes, or nothing
	worthPartJSON
	Parts []worthPartJSON `json:"parts"`
}

// worthPartJSON has shares instead of weights.
type worthPartJSON struct {
	*KeyJSON         // left out: the sum
	Covered  float64 `json:"covered_share"`
	fit.CallTimes
}

func newWorthJSON(w *fit.Worth) worthJSON {
	part := func(p fit.WorthPart) worthPartJSON {
		j := worthPartJSON{CallTimes: p.CallTimes}
		if w.Total > 0 {
			j.Covered = p.Covered / w.Total
		}
		if p.Ranks > 0 {
			j.KeyJSON = (*KeyJSON)(&p.Key)
		}
		return j
	}
	j := worthJSON{Headline: report.JobHeadline(w), PerStep: w.PerStep, ShareOf: shareOf(w.Scale),
		worthPartJSON: part(w.WorthPart), Parts: []worthPartJSON{}}
	for _, p := range w.Parts {
		j.Parts = append(j.Parts, part(p))
	}
	return j
}
