package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

type fitFlags struct {
	model          string
	csv            string
	force          bool
	maxNodes       int
	unknownDefault bool
	nccl           string
	topology       string
	shortlist      bool
}

func fitCommand() *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit SWEEP...",
		Short: "Fit cost models to measurements",
		Long: `Fit cost models to measurements: one per collective, communicator, algorithm and
protocol, over bytes and channels. Read is whatever tunefit import reads.

Printed are the rows used and refused; per collective and communicator how far
the fit is off, and what its decisions cost on data left out of it, as time of
the decision / best measured: of the policy, which leaves to NCCL what it cannot
improve for sure, of the plain fastest prediction, and of simpler ways to decide.

The model answers only for what was measured: the same number of nodes and ranks,
sizes and channel counts within those measured. Measure the default, too
(nccl-tests without NCCL_ALGO and NCCL_PROTO): without it nothing tells whether
a configuration is better.`,
		Example: `  tunefit fit sweeps/*.csv -o model.json
  tunefit fit sweeps/*.csv --csv tuner.csv --force`,
		Args: atLeastOne("one sweep or more"),
		RunE: func(cmd *cobra.Command, args []string) error { return fitFiles(cmd, args, f) },
	}
	cmd.Flags().StringVarP(&f.model, "output", "o", "", "model to write, JSON")
	cmd.Flags().StringVar(&f.csv, "csv", "", "policy to write, in the format of NCCL's example tuner")
	cmd.Flags().BoolVar(&f.force, "force", false, "overwrite files that are there")
	cmd.Flags().IntVar(&f.maxNodes, "max-nodes", 0, "answer for up to this many nodes from the largest several-node measurement, where the gain is large (default: measured node counts only)")
	cmd.Flags().BoolVar(&f.unknownDefault, "unknown-default", false, "with --csv: write rows also where the default was not measured")
	cmd.Flags().StringVar(&f.nccl, "nccl", "", "NCCL version that was measured, for the model's provenance")
	cmd.Flags().StringVar(&f.topology, "topology", "", "fingerprint of the measured machine, for the model's provenance")
	cmd.Flags().BoolVar(&f.shortlist, "shortlist", false, "print what to measure on communicators that the model does not know")
	return cmd
}

func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("no file given (needed: %s)", what)
		}
		return nil
	}
}

func fitFiles(cmd *cobra.Command, files []string, f fitFlags) error {
	if f.maxNodes < 0 || f.maxNodes == 1 || f.maxNodes > 1<<24 {
		return usagef("--max-nodes %d (allowed: 2 or more; one node tells nothing about several)", f.maxNodes)
	}
	for _, file := range []string{f.model, f.csv} {
		if err := mayWrite(file, f.force); err != nil {
			return err
		}
	}
	set, sources, rejected, err := readSweeps(cmd, files)
	if err != nil {
		return err
	}
	writeRows(cmd.OutOrStdout(), set, rejected)
	if set.Used == 0 {
		return errors.New("not one usable measurement: nothing was written")
	}
	file, report := fit.Fit(set, fit.Options{
		MaxNodes: f.maxNodes,
		Provenance: policy.ModelProvenance{
			Tool: "tunefit " + tuner.Version, Files: sources, NCCL: f.nccl, Topology: f.topology,
		},
	})
	writeReport(cmd.OutOrStdout(), report)
	if f.shortlist {
		writeShortlist(cmd.OutOrStdout(), report)
	}
	if len(file.Groups) == 0 {
		return errors.New("nothing but the default was measured, there is nothing to choose from: nothing was written (measure with NCCL_ALGO, NCCL_PROTO and NCCL_MIN_NCHANNELS = NCCL_MAX_NCHANNELS)")
	}
	model, err := policy.CompileModel("the fitted model", file)
	if err != nil {
		return err
	}
	if f.model != "" {
		if err := writeWhole(f.model, f.force, func(w io.Writer) error { return fit.WriteModel(w, file) }); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", f.model)
	}
	if f.csv != "" {
		rows := fit.Rows(model, fit.RowOptions{UnknownDefault: f.unknownDefault})
		if len(rows) == 0 {
			return fmt.Errorf("%s was not written: no row would improve on the default for sure%s", f.csv, unmeasuredDefault(report))
		}
		if err := writeWhole(f.csv, f.force, func(w io.Writer) error { return fit.WriteRows(w, rows) }); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s, %d rows\n", f.csv, len(rows))
	}
	return nil
}

func unmeasuredDefault(report *fit.Report) string {
	for _, g := range report.Groups {
		if len(g.Group.Default) == 0 {
			return " (the default was not measured everywhere; --unknown-default writes rows all the same)"
		}
	}
	return ""
}

// readSweeps pools the measurements of all files and lists why some times were
// rejected while reading.
func readSweeps(cmd *cobra.Command, files []string) (*fit.Set, []policy.ModelSource, []fit.Refusal, error) {
	pool := fit.NewPool()
	var sources []policy.ModelSource
	var failed []error
	rejected := map[string]int{}
	var notes []bench.Note
	progress := newProgress(cmd.ErrOrStderr(), len(files))
	for _, name := range files {
		progress.next(name)
		source, err := readSweep(pool, name, rejected, &notes)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		sources = append(sources, source)
	}
	progress.end()
	for _, n := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	if len(failed) > 0 {
		return nil, nil, nil, fmt.Errorf("%w\nnothing was written", errors.Join(failed...))
	}
	var refusals []fit.Refusal
	for reason, n := range rejected {
		refusals = append(refusals, fit.Refusal{Reason: reason, Rows: n})
	}
	slices.SortFunc(refusals, func(a, b fit.Refusal) int { return strings.Compare(a.Reason, b.Reason) })
	return pool.Set(), sources, refusals, nil
}

func readSweep(pool *fit.Pool, name string, rejected map[string]int, notes *[]bench.Note) (policy.ModelSource, error) {
	in, err := os.Open(name)
	if err != nil {
		return policy.ModelSource{}, err
	}
	defer in.Close()
	digest := sha256.New()
	r, err := bench.Read(io.TeeReader(in, digest), name, bench.Options{Each: pool.Add})
	if err != nil {
		return policy.ModelSource{}, err
	}
	if _, err := io.Copy(digest, in); err != nil { // what the reader left behind the last row
		return policy.ModelSource{}, err
	}
	*notes = append(*notes, r.Notes...)
	for _, rej := range r.Rejected {
		rejected[rej.Reason] += rej.Count
	}
	return policy.ModelSource{Name: filepath.Base(name), SHA256: hex.EncodeToString(digest.Sum(nil)), Rows: r.Kept}, nil
}

func writeRows(w io.Writer, set *fit.Set, rejected []fit.Refusal) {
	refused := set.Rows - set.Used
	for _, r := range rejected {
		refused += r.Rows
	}
	fmt.Fprintf(w, "measurements: %d used, %d refused\n", set.Used, refused)
	for _, r := range append(rejected, set.Refused...) {
		fmt.Fprintf(w, "  %d: %s\n", r.Rows, r.Reason)
	}
	if set.Simulated > 0 {
		fmt.Fprintf(w, "  %d of those used are simulated, not measured\n", set.Simulated)
	}
}

// writeReport prints two tables, then what the model does not know.
func writeReport(w io.Writer, report *fit.Report) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\ncollective\tconfigurations\tsizes\tnoise\tfit off by\tgain over default\t(as measured)")
	for _, r := range report.Groups {
		g := r.Group
		if r.DefaultOnly {
			fmt.Fprintf(tw, "%s\tdefault only\t%s\n", g.Key, sizesOf(g.Default))
			continue
		}
		noise := percent(g.Noise)
		if g.NoisePairs == 0 {
			noise += " assumed"
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", g.Key, len(g.Configs()), sizesOf(g.Cells), noise, percent(r.FitError), percent(r.Gain), percent(r.MeasuredGain))
	}
	tw.Flush()
	writeVerdicts(w, report.Groups)
	writeGaps(w, report)
}

func percent(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

func sizesOf(cells []fit.Cell) string {
	least, most := uint64(math.MaxUint64), uint64(0)
	for _, c := range cells {
		least, most = min(least, c.Bytes), max(most, c.Bytes)
	}
	return policy.FormatBytes(least) + " - " + policy.FormatBytes(most)
}

// writeVerdicts prints what decisions cost on data left out: mean [90 % interval],
// p95 and max of the policy, then the means of what it has to beat.
func writeVerdicts(w io.Writer, groups []fit.GroupReport) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	heading := "\nleft out\tcollective\tpolicy / best\tp95\tmax\tplain\tdefault\tlog-log\tnearest\targ-min\tslower than default\tin 90 %"
	for _, r := range groups {
		for _, v := range r.Verdicts {
			if heading != "" {
				fmt.Fprintln(tw, heading)
				heading = ""
			}
			s := v.Cautious
			name := r.Group.Key.String()
			if s.Decisions == 0 {
				s = v.Plain
				name += " (plain)"
			}
			harm, inside := "-", "-"
			if v.Cautious.Decisions > 0 {
				harm = fmt.Sprintf("%d of %d", v.Harm, v.Spoke)
			}
			if v.Predicted > 0 {
				inside = fmt.Sprintf("%.0f %%", 100*float64(v.Inside)/float64(v.Predicted))
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.LeftOut, name, interval(s), ratio(s, s.P95), ratio(s, s.Max),
				ratio(v.Plain, v.Plain.Mean), ratio(v.Default, v.Default.Mean), ratio(v.LogLog, v.LogLog.Mean),
				ratio(v.Nearest, v.Nearest.Mean), ratio(v.PlainRows, v.PlainRows.Mean), harm, inside)
		}
	}
	tw.Flush()
	for _, r := range groups {
		for _, v := range r.Verdicts {
			if v.Cautious.Decisions > 0 && v.Plain.Decisions > 0 {
				fmt.Fprintf(w, "%s, %s left out: doing no harm %s\n", r.Group.Key, v.LeftOut, costOfCaution(v.Forgone))
			}
		}
	}
}

func costOfCaution(forgone float64) string {
	if forgone < 0 {
		return fmt.Sprintf("saves %.2f %% against always taking the fastest prediction", -100*forgone)
	}
	return fmt.Sprintf("costs %.2f %% against always taking the fastest prediction", 100*forgone)
}

func interval(s fit.Score) string {
	if s.Decisions == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", s.Mean, s.Low, s.High)
}

func ratio(s fit.Score, v float64) string {
	if s.Decisions == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", v)
}

// restlessNoise between repetitions is more than any machine should have.
const restlessNoise = 0.1

// writeGaps lists what the model does not know, and why.
func writeGaps(w io.Writer, report *fit.Report) {
	var gaps []string
	add := func(format string, args ...any) { gaps = append(gaps, fmt.Sprintf(format, args...)) }
	for _, r := range report.Groups {
		g := r.Group
		switch {
		case r.DefaultOnly:
			add("%s: nothing but the default was measured; the model is silent", g.Key)
			continue
		case len(g.Default) == 0:
			add("%s: the default was not measured; the model speaks only where it beats the best that NCCL's own choice can be", g.Key)
		case len(g.Default) < len(g.Sizes()):
			add("%s: the default was measured at %d of %d sizes", g.Key, len(g.Default), len(g.Sizes()))
		}
		if g.Noise > restlessNoise {
			add("%s: repetitions differ by %s; measure on a quiet machine, and check that all times are microseconds", g.Key, percent(g.Noise))
		}
		if len(g.Configs()) == 1 {
			add("%s: one configuration, nothing to choose from", g.Key)
		}
		if len(g.Sizes()) == 1 {
			add("%s: one size, %s; the model is silent at all others", g.Key, policy.FormatBytes(g.Sizes()[0]))
		}
		if r.Edge > 0 {
			add("%s: %d channels win at some sizes and are at the end of the range measured: widen it", g.Key, r.Edge)
		}
		if twins := fit.DescribeTwins(g.Twins); twins != "" {
			add("%s: probably mislabelled, the model is silent there: %s", g.Key, twins)
		}
		for _, c := range r.Outliers {
			add("%s: outlier: %s at %s took %.4g us; measure it again", g.Key, c.Config, policy.FormatBytes(c.Bytes), c.Micros)
		}
	}
	if report.Unvalidated > 0 {
		add("%d groups beyond the first were fitted but not validated on left-out data, to bound the time", report.Unvalidated)
	}
	add("other node counts, ranks per node, sizes and channel counts (tunefit fit --shortlist says what to measure there)")
	fmt.Fprintln(w, "\nnot covered:")
	for _, g := range gaps {
		fmt.Fprintf(w, "  %s\n", g)
	}
}

// writeShortlist prints what to measure on more nodes than were measured.
func writeShortlist(w io.Writer, report *fit.Report) {
	fmt.Fprintln(w, "\nto measure on other node counts, with the default: the three fastest configurations of each size here")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "collective\tconfiguration\tsizes")
	for _, r := range report.Groups {
		for _, c := range r.Shortlist {
			var sizes []string
			for _, b := range c.Sizes {
				sizes = append(sizes, policy.FormatBytes(b))
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\n", r.Group.Key, c.Config, strings.Join(sizes, " "))
		}
		if r.Group.Nodes == 1 && !r.DefaultOnly {
			fmt.Fprintf(tw, "%s\tone node tells nothing about several: measure all there\n", r.Group.Key)
		}
	}
	tw.Flush()
}
