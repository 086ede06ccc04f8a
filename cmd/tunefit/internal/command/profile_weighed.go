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
	row := func(name string, p fit.WorthSum) {
		tw.Row(name, profile.Duration(p.Default), profile.Duration(p.Policy), profile.Duration(p.Best),
			fmt.Sprintf("%.3f", p.Policy/p.Default), fmt.Sprintf("%.3f", p.Policy/p.Best),
			cli.Percent(p.Covered))
	}
	if len(w.Parts) > 1 {
		row("all", w.WorthSum)
	}
	for _, p := range w.Parts {
		row(p.Key.String(), p.WorthSum)
	}
	tw.Flush()
}
