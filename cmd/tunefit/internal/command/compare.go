package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/compare"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

type compareFlags struct {
	in        *cli.Inputs
	config    string
	all       bool
	turns     bool
	threshold string
	asJSON    bool
	restore   string
	force     bool
}

func compareCommand(env cli.Env) *cobra.Command {
	f := compareFlags{in: env.Inputs}
	cmd := &cobra.Command{
		Use:   "compare BEFORE AFTER | compare BEFORE... -- AFTER... | compare DIR",
		Short: "Compare measurements before and after: an upgrade, a policy, a repair",
		Long: `Compare measurements before and after: what became faster, what became slower, and
what is only run-to-run variation. It reads what tunefit import reads. Name one file or
directory for each side. For more, put -- between the sides, and flags before the files.

It prints the median times of each size, and the ratio with an interval: below 1 is faster.
The verdict is faster, slower, or ~ where the difference is not significant. Make three or
more runs of each side, in turns. docs/dev/EVIDENCE.md explains the tests.

If a side holds several configurations, as a sweep does, it compares NCCL's default, or
the configuration that --config names.

--restore writes a policy that asks for what ran before, where that became slower, if the
logs tell it. Nothing tells whether it is still faster: validate it, as by sweep --prove.

With the directory of ` + tuner.EnvRecord + ` alone it prints what jobs with
` + tuner.EnvCompare + ` or ` + tuner.EnvCanary + ` found out about their policy.

Exit code: 0 if nothing is significantly slower, 1 if a size or a mean is slower by more
than --threshold, or if there is nothing to compare.`,
		Example: `  tunefit compare before.log after.log
  tunefit compare --threshold 2% before-*.log -- after-*.log
  tunefit compare old-nccl.csv new-nccl.csv --restore policy.csv
  tunefit compare record`,
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error { return cli.FailIf(f.compare(cmd, args)) },
	}
	cmd.Flags().StringVar(&f.config, "config", "",
		"compare one forced configuration, as ring/simple/8, or ring/simple where NCCL chose the channels")
	cmd.Flags().BoolVar(&f.all, "all", false,
		"compare every data type, and in-place as well; without it, the one with most sizes")
	cmd.Flags().BoolVar(&f.turns, "turns", false,
		"compare pairs: the runs were made in turns, in the order of the files (default: as the logs' times "+
			"tell)")
	cmd.Flags().StringVar(&f.threshold, "threshold", "1%", "exit code 1 where a significant slowdown exceeds this")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&f.restore, "restore", "", "policy to write, of what ran before where that became slower")
	cmd.Flags().BoolVar(&f.force, "force", false,
		"overwrite the policy, and read files of which many rows cannot be read")
	return cmd
}

// sides tells the files before from those after.
func sides(cmd *cobra.Command, args []string) (files [2][]string, err error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && len(args) == 2:
		return [2][]string{args[:1], args[1:]}, nil
	case dash < 0:
		return files, cli.Usagef("%s given (needed: one before and one after, or before-*.log -- after-*.log, or the "+
			"directory of "+tuner.EnvRecord+")", wording.Plural(len(args), "file"))
	case dash == 0 || dash == len(args):
		return files, cli.Usagef("no file %s -- (needed: files before the change, --, files after it)",
			map[bool]string{true: "before", false: "after"}[dash == 0])
	}
	for _, arg := range args[dash:] {
		if strings.HasPrefix(arg, "--") {
			return files, cli.Usagef("%s: behind -- all is files (flags stand before it)", arg)
		}
	}
	return [2][]string{args[:dash], args[dash:]}, nil
}

func (f *compareFlags) options() (opts compare.Options, err error) {
	opts = compare.Options{AllVariants: f.all, Alternating: f.turns}
	number, isPercent := strings.CutSuffix(strings.TrimSpace(f.threshold), "%")
	if opts.Threshold, err = strconv.ParseFloat(strings.TrimSpace(number), 64); err != nil ||
		!(opts.Threshold >= 0 && opts.Threshold <= 1000) {
		return opts, cli.Usagef("--threshold %q (allowed: a share as 1%% or 0.01, 0 to 1000%%)", f.threshold)
	}
	if isPercent {
		opts.Threshold /= 100
	}
	if !isPercent && opts.Threshold >= 1 {
		return opts, cli.Usagef("--threshold %s is %.0f %% (did you mean --threshold %s%%)", f.threshold,
			100*opts.Threshold, f.threshold)
	}
	if f.config != "" {
		c, err := nccl.ParseConfig(f.config)
		if err != nil {
			return opts, cli.Usagef("--config %w", err)
		}
		opts.Config = &c
	}
	return opts, nil
}

// compare reports whether something is proven to be slower.
func (f *compareFlags) compare(cmd *cobra.Command, args []string) (slower bool, err error) {
	opts, err := f.options()
	if err != nil {
		return false, err
	}
	if len(args) == 1 && cmd.ArgsLenAtDash() < 0 {
		switch info, err := os.Stat(args[0]); {
		case err != nil:
			return false, err
		case info.IsDir():
			return f.compareJob(cmd, args[0])
		}
	}
	named, err := sides(cmd, args)
	if err != nil {
		return false, err
	}
	sides, err := f.read(cmd, named)
	if err != nil {
		return false, err
	}
	t := compare.Two(sides[0], sides[1], opts)
	for _, l := range t.LeftOut {
		fmt.Fprintf(cmd.ErrOrStderr(), "left out %s: %s: %s\n", l.Side, wording.Plural(l.Rows, "time"), l.Reason)
	}
	if f.asJSON || len(t.Sections) > 0 {
		err = cli.Print(cmd.OutOrStdout(), f.asJSON, t, func(w io.Writer) { writeTable(w, t) })
	}
	if len(t.Sections) == 0 {
		err = errors.Join(err, errors.New("nothing to compare: no collective, communicator, data type and size is in "+
			"both under the same options of nccl-tests and settings (tunefit import shows what a log holds)"))
	}
	if err == nil && f.restore != "" {
		err = f.writeRestored(cmd.ErrOrStderr(), t)
	}
	return err == nil && (t.Beyond > 0 || t.MeanBeyond), err
}

// writeRestored writes rows that ask for what ran before, where what runs now is slower by more than the threshold.
func (f *compareFlags) writeRestored(notes io.Writer, t *compare.Table) error {
	var rows []fit.Row
	restored := 0 // sizes
	for _, g := range t.Sections {
		adjacent := false // the last row is of the size before
		for _, r := range g.Rows {
			c, now := r.Before.Ran.Config, r.After.Ran.Config
			if !r.Exceeds(t.Threshold) || !c.Known() || c == now || g.Nodes == 0 {
				adjacent = false
				continue
			}
			restored++
			if c.Cell != now.Cell || !nccl.ChannelsCanBeSet(c.Algo, g.Nodes) {
				c.Channels = 0
			}
			if last := len(rows) - 1; adjacent && rows[last].Config == c {
				rows[last].Bytes.Max = r.Bytes
				continue
			}
			rows = append(rows, fit.Row{Key: fit.Key{Coll: g.Coll, Comm: g.Comm}, Config: c,
				Bytes: nccl.Range{Min: r.Bytes, Max: r.Bytes}, Comments: []string{fmt.Sprintf(
					"not validated: from %s on %.3f of the time since, %s ran before, %s now",
					nccl.FormatBytes(r.Bytes), r.Ratio, r.Before.Ran.Label(), r.After.Ran.Label())}})
			adjacent = true
		}
	}
	if left := t.Beyond - restored; left > 0 {
		fmt.Fprintf(notes, "not restored: %s, where the same ran before, or nothing tells what ran (NCCL_DEBUG=INFO "+
			"with NCCL_DEBUG_SUBSYS=TUNING does)\n", wording.Plural(left, "size"))
	}
	if restored == 0 {
		fmt.Fprintf(notes, "%s was not written: nothing is there to be restored\n", f.restore)
		return nil
	}
	if err := cli.WriteWhole(f.restore, f.force, func(w io.Writer) error {
		if t.Simulated > 0 {
			fmt.Fprintln(w, "# "+nccl.Remark(nccl.RemarkSimulated, "", "its times are not measured"))
		}
		return fit.WriteRows(w, rows, nccl.AnyRelease)
	}); err != nil {
		return err
	}
	fmt.Fprintf(notes, "wrote %s, %s for %s, not validated\n", f.restore, wording.Plural(len(rows), "row"),
		wording.Plural(restored, "size"))
	return nil
}

// read returns the times of both sides.
func (f *compareFlags) read(cmd *cobra.Command, named [2][]string) (samples [2][]bench.Sample, err error) {
	var files [2][]string
	found := map[string]bool{}
	for side := range named {
		var below map[string]bool
		if files[side], below, err = walked(named[side]); err != nil {
			return samples, err
		}
		maps.Copy(found, below)
	}
	both := slices.Concat(files[0], files[1])
	if err := cli.MayWrite(f.restore, f.force, both...); err != nil {
		return samples, err
	}
	in := newReader(f.in, cmd, both, found, f.force)
	in.opts.Default = true // whatever ran, it is compared
	before := in.known
	for side := range files {
		in.known = map[string]string{}
		in.each(files[side], func(r *bench.Result, digest string) {
			samples[side] = append(samples[side], r.Samples...)
			for _, rej := range r.Rejected {
				in.notes = append(in.notes, bench.Note{File: r.File, Line: rej.Line,
					Text: fmt.Sprintf("rejected %d: %s", rej.Count, rej.Reason)})
			}
			in.notes = append(in.notes, r.Notes...)
			if other := before[digest]; other != "" {
				in.notes = append(in.notes,
					bench.Note{File: r.File, Text: "holds the same as " + other + " on the other side"})
			}
		})
		before = in.known
	}
	return samples, in.finish(cmd.ErrOrStderr())
}

// compareJob shows what jobs have found out about their policy and left in a directory.
func (f *compareFlags) compareJob(cmd *cobra.Command, dir string) (slower bool, err error) {
	for _, flag := range []string{"config", "all", "turns", "threshold", "restore", "force"} {
		if cmd.Flags().Changed(flag) {
			return false, fmt.Errorf("--%s is about measurements, and %s is what a job has found out", flag, dir)
		}
	}
	all, err := readComparisons(dir)
	if err != nil {
		return false, err
	}
	err = cli.Print(cmd.OutOrStdout(), f.asJSON, all, func(w io.Writer) { writeComparisons(w, all) })
	if err != nil {
		return false, err
	}
	if slower = slices.ContainsFunc(all, trial.Conclusion.Slower); !slower &&
		!slices.ContainsFunc(all, trial.Conclusion.Known) {
		return false, fmt.Errorf("%s: nothing is known yet", dir)
	}
	return slower, nil
}

// readComparisons returns those in a directory, the largest communicator's first.
func readComparisons(dir string) (all []trial.Conclusion, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, entry := range entries {
		if matches, _ := filepath.Match(telemetry.ComparisonFiles, entry.Name()); !matches {
			continue
		}
		c, err := readComparison(filepath.Join(dir, entry.Name()))
		all, failed = append(all, c), append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no job has left a comparison here (it needs %s=%s and %s=nccl, or %s=1)", dir,
			tuner.EnvRecord, dir, tuner.EnvCompare, tuner.EnvCanary)
	}
	slices.SortStableFunc(all, func(a, b trial.Conclusion) int {
		return cmp.Or(cmp.Compare(b.Ranks, a.Ranks), a.Began.Compare(b.Began), cmp.Compare(a.Key, b.Key))
	})
	return all, nil
}

func readComparison(file string) (trial.Conclusion, error) {
	text, err := cli.ReadRegular(file)
	if err != nil {
		return trial.Conclusion{}, err
	}
	_, c, err := trial.Read(file, text)
	if c != nil {
		return *c, nil
	}
	return trial.Conclusion{}, fmt.Errorf("%w (needed: a comparison; the library writes these files whole: copy it "+
		"again, or remove it)", cmp.Or(err, fmt.Errorf("%s: what a job has learned", file)))
}

func writeComparisons(w io.Writer, all []trial.Conclusion) {
	for i, c := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s against %s, on %s of %s, %s to %s\n  %s\n  %s\n", wording.Line(c.A.Name),
			wording.Line(c.B.Name), wording.Plural(c.Ranks, "rank"), wording.Plural(c.Nodes, "node"),
			c.Began.Format("2006-01-02 15:04"), c.At.Format("15:04"), c.Verdict(), c.Effort())
	}
}
