package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

type fitFlags struct {
	env      ncclchoice.Env
	model    string
	csv      string
	force    bool
	maxNodes int
	madeWith string
	topo     string
	report   string
	mix      bool
	profile  string
	runs     string
	asJSON   bool   // the caller prints what was found
	found    string // topology file of the measured machine, where topo names none; "": not known
}

func fitCommand(env ncclchoice.Env) *cobra.Command {
	f := fitFlags{env: env}
	cmd := &cobra.Command{
		Use:   "fit SWEEP...",
		Short: "Fit cost models to measurements",
		Long: `Fit cost models to measurements: a curve through the measured times of each
configuration, for each collective and communicator. It reads what tunefit import reads.

For each collective and communicator it prints whether to use what was learnt, how much
time that saves and at which sizes. Then it prints what this rests on and what to
measure next. It saves nothing unless -o, --csv or --report names a file.

The model answers only for what was measured: the same number of nodes and ranks, the
channel counts measured, sizes within those measured. Measure the default, too
(nccl-tests without NCCL_ALGO and NCCL_PROTO). Without it nothing tells whether a
configuration is better.`,
		Example: `  tunefit fit sweeps/*.csv -o model.json --csv tuner.csv
  tunefit fit sweeps/*.csv --report report.html --topo system.xml --force`,
		Args: cli.Args(1, -1, "one sweep or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := fitFiles(cmd, args, f)
			if !f.asJSON || in.Set == nil { // it got nowhere
				return err
			}
			return errors.Join(err, cli.WriteJSON(cmd.OutOrStdout(), newFitJSON(&f, in)))
		},
	}
	cmd.Flags().StringVarP(&f.model, "output", "o", "", "cost model to write, a JSON file")
	cmd.Flags().StringVar(&f.csv, "csv", "", "policy to write; its rows are for the releases of NCCL that were "+
		"measured, as far as these are known")
	cmd.Flags().StringVar(&f.report, "report", "",
		"page to write, HTML: gains, curves, what is not covered and the policy, in one file for a browser")
	cmd.Flags().StringVar(&f.profile, "profile", "",
		"job profile: say first, and on the page, how much communication time a step the policy saves this job")
	cmd.Flags().BoolVar(&f.force, "force", false,
		"overwrite files that are there, and read sweeps of which many rows cannot be read")
	cmd.Flags().IntVar(&f.maxNodes, "max-nodes", 0,
		"add rows, marked as not measured, for communicators of up to this many nodes, at most twice those "+
			"measured: what gains much on the largest measured, two nodes or more (default: measured node counts only)")
	cmd.Flags().StringVar(&f.madeWith, "made-with", "",
		"release of NCCL that the measurements were made with, as 2.28.9, or \"RCCL 2.27.7\" (default: as they say)")
	cmd.Flags().StringVar(&f.topo, "topo", "",
		"topology file of the measured machine (NCCL's XML, or from tunefit topo --dump); the library then uses the "+
			"model on such machines only")
	cmd.Flags().BoolVar(&f.mix, "mix", false, "fit one model to measurements of different GPUs; the model says so")
	cmd.Flags().StringVar(&f.runs, "runs", "",
		"where runs were measured in several ways, fit only: graph (CUDA graphs, -G), eager (without), or the "+
			"options of nccl-tests and variables as fit prints them")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, one object")
	return cmd
}

// fitFiles makes the files that are asked for, and returns what it found; without a set if it got nowhere.
func fitFiles(cmd *cobra.Command, files []string, f fitFlags) (in report.Input, err error) {
	if v := strings.TrimPrefix(f.madeWith, "RCCL "); v != "" {
		if _, err := nccl.ParseVersion(v); err != nil {
			return in, cli.Usagef("--made-with: %w; one of RCCL is given as \"RCCL 2.27.7\"", err)
		}
	}
	if err := f.mayWrite(append(slices.Clone(files), f.topo, f.profile)...); err != nil {
		return in, err
	}
	var job *profile.Profile
	if f.profile != "" {
		if job, err = readProfile(f.env.Inputs, f.profile); err != nil {
			return in, err
		}
	}
	pool := fit.NewPool()
	pool.MadeWith, pool.Runs = f.madeWith, f.runs
	var machine *model.Machine
	on := tuningOn(f.env, cmp.Or(f.topo, f.found))
	switch {
	case f.topo != "":
		if machine, err = ask.ReadMachine(f.env, f.topo); err != nil {
			return in, err
		}
		pool.Offers = on.offers
	case f.found != "":
		if machine, err = ask.ReadMachine(f.env, f.found); err != nil { // it was not given, so nothing depends on it
			fmt.Fprintf(cmd.ErrOrStderr(), "the model is for any machine: %v\n", err)
		}
	}
	apart := otherRuns(pool)
	set, sources, rejected, err := readSweeps(pool, f.env.Inputs, cmd, files, nil, f.force, apart...)
	if err != nil {
		return in, fmt.Errorf("%w\nnothing was written", err)
	}
	if err := f.mayFit(set, machine, pool.Offers); err != nil {
		if !f.asJSON {
			writeRows(cmd.OutOrStdout(), set, rejected)
		}
		return in, err
	}
	file, found := fit.Fit(set, fit.Options{
		Provenance: model.Provenance{
			Tool: "tunefit " + tuner.Release, Files: sources, Topology: machine,
		},
	})
	model, err := model.Compile("the fitted model", file)
	if err != nil {
		return in, err
	}
	if cmd.Flags().Changed("max-nodes") {
		switch least, most := fit.CarriedNodes(file); {
		case most == 0:
			return in, cli.Usagef("--max-nodes %d: nothing was measured on several nodes, and one tells nothing "+
				"about them", f.maxNodes)
		case f.maxNodes < least || f.maxNodes > most:
			return in, cli.Usagef("--max-nodes %d (allowed: %d to %d, twice the nodes that were measured)", f.maxNodes,
				least, most)
		}
	}
	in = report.Input{
		Set: set, Rejected: rejected, File: file, Model: model, Report: found,
		Rows: underConditions(set, append(fit.Rows(model), fit.MoreNodes(model, f.maxNodes)...)),
	}
	if machine != nil {
		in.Bandwidths = on.reached(set)
	}
	for _, other := range apart {
		if in.Apart, err = chosenApart(set, other, in.Rows); err != nil {
			return report.Input{}, err
		}
	}
	if f.maxNodes > 0 && len(report.CarriedOver(in.Rows)) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "nothing is carried over to more nodes: no row saves more than %.0f %% of the "+
			"default's time on the most nodes that were measured\n", 100*fit.CarriedGain)
	}
	if job != nil {
		in.Job, in.Worth = filepath.Base(f.profile), fit.NewWorth(job, set, fit.DecideByRows(in.Rows), found)
	}
	if !f.asJSON {
		writeAnswer(cmd.OutOrStdout(), in)
	}
	if len(file.CurveSets) == 0 {
		return in, errors.New("nothing but the default was measured, there is nothing to choose from: nothing was " +
			"written (tunefit sweep measures more)")
	}
	return in, f.write(cmd.ErrOrStderr(), in)
}

// mayFit refuses measurements that no model can be made of, and those that the machine of --topo cannot have made.
func (f *fitFlags) mayFit(set *fit.Set, machine *model.Machine, offers fit.OffersFunc) error {
	for _, g := range set.Groups {
		if f.topo != "" && g.Ranks > g.Nodes*machine.Summary.GPUs {
			return fmt.Errorf("%s has %s, and %s was measured with %d ranks on a node: nothing was written (needed: "+
				"the topology of the machine that was measured; tunefit topo --dump writes it there)", f.topo,
				wording.Plural(machine.Summary.GPUs, "GPU"), g.Comm, g.Ranks/g.Nodes)
		}
		for _, own := range g.Default {
			if cell := own.Config.Cell; offers != nil && cell != nccl.NoCell && !offers(g.Key, cell, set.NCCL) {
				return fmt.Errorf("%s cannot be the measured machine: NCCL itself ran %s for %s of %s on %s there, "+
					"and it is not available on this one: nothing was written (needed: the topology of the machine "+
					"that was measured; tunefit topo --dump writes it there)", f.topo, cell, g.Coll,
					nccl.FormatBytes(own.Bytes), g.Comm)
			}
		}
	}
	switch {
	case set.Used == 0 && f.runs != "":
		return fmt.Errorf("nothing was measured under --runs %q: nothing was written (allowed: graph, eager, or what "+
			"fit prints without --runs)", f.runs)
	case set.Used == 0:
		return errors.New("not one usable measurement: nothing was written (tunefit import --coll and --comm say " +
			"what files do not)")
	case len(set.GPUs()) > 1 && !f.mix:
		return mixed(set)
	}
	return unlike(set)
}

// underConditions says, before the rows of a group, under which variables it was measured, and whether in CUDA graphs.
// Nothing is known of jobs that run otherwise.
func underConditions(set *fit.Set, rows []fit.Row) []fit.Row {
	for i := range rows {
		if i > 0 && rows[i-1].Key == rows[i].Key {
			continue
		}
		for under := range set.Of(rows[i].Group()).Under {
			if under.Graphs() {
				rows[i].Comments = append(rows[i].Comments, "measured in CUDA graphs, for jobs that replay graphs")
			}
			if under.Variables != "" {
				rows[i].Comments = append(rows[i].Comments,
					nccl.Remark(nccl.RemarkUnder, under.Variables, "for jobs with these variables only"))
			}
		}
	}
	return rows
}

// unlike is the error for groups that were measured under several conditions.
func unlike(set *fit.Set) error {
	var lines, names []string
	short := map[string]int{"graph": 1, "eager": 1} // how many sets of a group the name means, at most
	for _, g := range set.Groups {
		if len(g.Under) < 2 {
			continue
		}
		of := map[string]int{}
		for _, under := range slices.SortedFunc(maps.Keys(g.Under), bench.Conditions.Compare) {
			rows := wording.Plural(g.Under[under], "row")
			lines = append(lines, fmt.Sprintf("  %s %s, %s: %s", g.Coll, g.Comm, rows, under))
			if name := strconv.Quote(under.String()); !slices.Contains(names, name) {
				names = append(names, name)
			}
			for name := range short {
				if under.Named(name) {
					of[name]++
				}
			}
		}
		for name := range short {
			short[name] = max(short[name], of[name])
		}
	}
	if lines == nil {
		return nil
	}
	if short["graph"] == 1 && short["eager"] == 1 {
		names = []string{"graph", "eager"}
	}
	return fmt.Errorf("these were measured under different options of nccl-tests, or variables that change NCCL's "+
		"default, and are never compared:\n%s\nnothing was written (--runs names what to fit: %s)",
		strings.Join(lines, "\n"), strings.Join(names, " or "))
}

// mixed is the error for measurements of different GPUs.
func mixed(set *fit.Set) error {
	var lines []string
	for _, m := range set.Machines {
		if m.GPU != "" {
			lines = append(lines, fmt.Sprintf("  %s, first in %s: %s", wording.Plural(m.Rows, "row"), m.Source,
				m.String()))
		}
	}
	return fmt.Errorf("these are measurements of different machines, and one model of them would be right on none:\n"+
		"%s\nnothing was written (fit each machine's sweeps apart; --mix fits them together, and the model says so)",
		strings.Join(lines, "\n"))
}

// mayWrite refuses files that are there, those that are read, and one file for two
// purposes.
func (f *fitFlags) mayWrite(read ...string) error {
	seen := map[string]string{}
	for _, o := range []struct{ flag, file string }{{"--output", f.model}, {"--csv", f.csv}, {"--report", f.report}} {
		if err := cli.MayWrite(o.file, f.force, read...); err != nil {
			return err
		}
		for file, other := range seen {
			if o.file != "" && cli.SameFile(file, o.file) {
				return cli.Usagef("%s and %s name the same file, %s", other, o.flag, o.file)
			}
		}
		if o.file != "" {
			seen[o.file] = o.flag
		}
	}
	return nil
}

// write makes the files that were asked for and says so. A policy without rows is
// none; all else is written before that is reported.
func (f *fitFlags) write(notes io.Writer, in report.Input) error {
	if f.model == "" && f.report == "" && f.csv == "" {
		fmt.Fprintln(notes,
			"nothing was saved (-o FILE.json saves the model, --csv FILE.csv the policy, --report FILE.html a page "+
				"to read)")
	}
	if f.model != "" {
		if err := cli.WriteWhole(f.model, f.force,
			func(w io.Writer) error { return fit.WriteModel(w, in.File) }); err != nil {
			return err
		}
		fmt.Fprintf(notes, "wrote %s\n", f.model)
	}
	if f.report != "" {
		if err := cli.WriteWhole(f.report, f.force,
			func(w io.Writer) error { return report.Write(w, in) }); err != nil {
			return err
		}
		fmt.Fprintf(notes, "wrote %s, to be opened in a browser\n", f.report)
	}
	if f.csv != "" {
		if len(in.Rows) == 0 {
			return fmt.Errorf("%s was not written: %w%s", f.csv, errNoGain, unmeasuredDefault(in.Report))
		}
		write := func(w io.Writer) error { return fit.WritePolicy(w, in.Rows, &in.File.Provenance) }
		if err := cli.WriteWhole(f.csv, f.force, write); err != nil {
			return err
		}
		fmt.Fprintf(notes, "wrote %s, %s\n", f.csv, wording.Plural(len(in.Rows), "row"))
	}
	return nil
}

// errNoGain is why there is no policy.
var errNoGain = errors.New("no row would improve on the default for sure")

func unmeasuredDefault(report *fit.Report) string {
	for _, g := range report.Groups {
		if len(g.Group.Default) == 0 {
			return " (the default was not measured everywhere)"
		}
	}
	return ""
}
