package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/compare"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/sweep"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
)

type sweepFlags struct {
	sweep.Options
	choices perfrun.Choices
	library cli.LibraryFlag
	args    string
	graph   int // launches of a CUDA graph; 0: calls are launched one by one

	launch     string
	launchArgs string
	hosts      []string
	profile    string
	container  string
	try        []string // names with values, each NAME=VALUE or, of the name before it, VALUE

	policy string // what is proven; empty: policy.csv in the directory

	dryRun bool
	from   []string
	init   bool
	asJSON bool

	page report.Input // of report.html, without a proof
}

// sweepJSON is what sweep --json prints.
type sweepJSON struct {
	Directory string         `json:"directory"`
	Fit       fitJSON        `json:"fit"`             // of all that was measured
	Proof     *compare.Table `json:"proof,omitempty"` // left out: there was none, or it broke off
	// InJob is the environment of a job that compares the policy with NCCL's choice; left out: there is no policy, or
	// it failed its proof.
	InJob       map[string]string `json:"in_job,omitempty"`
	NotMeasured []string          `json:"not_measured"` // and their reasons are in the journal
}

func sweepCommand(env cli.Env) *cobra.Command {
	f := sweepFlags{choices: perfrun.Choices{Topology: ask.Flags{Env: env}}}
	cmd := &cobra.Command{
		Use:   "sweep [PLAN.yaml] -o DIRECTORY",
		Short: "Measure a cluster with nccl-tests, and make a policy of it",
		Long: `Measure a cluster with nccl-tests, and make a policy of it. A start of nccl-tests runs all
sizes many times; the library chooses another configuration each time. After each start
the sweep decides what to measure next, until a start improves the times by less than
0.4 % in the mean of all sizes. It verifies what it would choose in a fresh start, in turns
with the default. That takes four starts or so. Then it writes sweep.csv, model.json,
policy.csv and report.html into the directory. The last line of its output tells how to
validate the policy in your training job.

It finishes collectives and communicators one after the other, in the order given. What
a budget does not reach is left to NCCL. On more nodes than the fewest above one it
measures what is fastest on these, with the next fewer channels; --full measures all.

The directory holds everything: journal.jsonl, logs/ for tunefit import, policies. The same
command, or -o alone, continues a sweep that ended early, and repeats only the start that
was cut off. Settings given now replace earlier ones: more sizes, channels, algorithms,
collectives or communicators are measured in addition. A policy.csv that somebody edited
is kept, and validated.

Before the first run a shell on each node looks for programs, library, directory and GPUs.
When a start dies, what ran then is tried once more by itself, and the rest goes on. What
NCCL refuses, or fails twice, is left out. What comes from outside ends the sweep: a
signal, a cancelled job, a lost node, a full disk.

It reaches nodes by mpirun of Open MPI, by Slurm, or by a command of your own:
  --launch local     one node, one process for all its GPUs: on this machine, or by srun on
                     the node of an allocation
  --launch mpirun    --hosts node1,node2, --launch-args "--mca btl ..."
  --launch slurm     in an allocation, by srun: begin the line with
                     salloc -N 2 --gpus-per-node=8 --exclusive; or sbatch
  --launch 'kubectl exec launcher -- mpirun -np {ranks} {env} {command}'

With --try it compares values of variables that no tuner reaches, as
NCCL_IB_QPS_PER_CONNECTION, NCCL_NTHREADS or those of FI_* and UCX_*. Each combination gets
one start; the two best meet the site's own in turns of four fresh starts. If one surely
gains, the policy is for it, and settings.conf has it.

To start runs by hand use --dry-run. It prints the first runs as a shell script, which
leaves policies and logs in the directory. With --from it prints what the sweep would run
next after these logs, and at last "done". What failed or did not end is left out; to try
that again, start it by hand and give its new log.`,
		Example: `  tunefit sweep --init > plan.yaml
  tunefit sweep plan.yaml -o sweep --dry-run
  tunefit sweep plan.yaml -o sweep --dry-run --from sweep/logs > next.sh
  tunefit sweep --coll allreduce --comm 1x8 -o sweep
  tunefit sweep -o sweep --prove`,
		Args: cli.Args(0, 1, "a plan file, or none"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false // what matters most comes first, in the plan file, too
	f.choices.Register(cmd)
	flags.StringVar(&f.profile, "profile", "",
		"job profile: measure what the job calls, the heaviest first, at every doubling around its sizes (--coll, "+
			"--comm and --sizes choose among it)")
	flags.StringSliceVar(&f.try, "try", nil, "a variable of the job and its values, as "+
		"NCCL_IB_QPS_PER_CONNECTION=1,4, with the site's own setting always among them; an empty value: unset; "+
		"may be repeated")
	f.library.Register(cmd, "that runs load")
	flags.BoolVar(&f.Full, "full", false, "on many nodes measure all configurations, not only the fastest on few nodes")
	flags.StringVar(&f.Programs, "perf-dir", "",
		"folder of nccl-tests' programs, all_reduce_perf and others, as nodes see it (default: PATH)")
	flags.StringVar(&f.args, "perf-args", "",
		`more options for them, as "-n 50 -w 10"; "-g 8" or "-t 8" gives each process 8 GPUs`)
	flags.IntVar(&f.graph, "graph", 0,
		"measure calls in CUDA graphs, launched this many times, nccl-tests' -G: for jobs that replay graphs, as "+
			"inference does. Without it times up to some MiB are those of the host's launches")
	flags.Lookup("graph").NoOptDefVal = "10"
	flags.StringVar(&f.launch, "launch", "",
		"what starts the ranks, one process a GPU: local (which starts one for all), mpirun, slurm or a command "+
			"(default: slurm where srun is, else mpirun; for one node local, if neither is there or nccl-tests is "+
			"not built with MPI)")
	cli.Complete(cmd, "launch", func([]string) []string { return []string{launch.Local, launch.MPIRun, launch.Slurm} })
	flags.StringVar(&f.launchArgs, "launch-args", "",
		`more options for mpirun or srun, as "--mpi=pmix --cpu-bind=none" for srun`)
	flags.StringSliceVar(&f.hosts, "hosts", nil, "hosts for mpirun or the command (default: its own)")
	flags.StringVar(&f.container, "container", "", `what the programs run in, as "apptainer exec --nv nccl.sif"`)
	flags.IntVar(&f.Repetitions, "repetitions", 1, "in how many fresh starts to verify")
	cli.Duration(flags, &f.Silence, "limit", 5*time.Minute, "end a run that prints nothing for this long")
	cli.Duration(flags, &f.Budget, "budget", 0,
		"for all runs together, as 2h; part of it is kept for the verification (default: no limit)")
	flags.IntVar(&f.Proof, "prove", 0,
		"then validate: run the default and the policy this many times in turns, in three starts or more, compare "+
			"them, and name runs that collapsed")
	flags.Lookup("prove").NoOptDefVal = "15"
	flags.StringVar(&f.policy, "policy", "",
		"with --prove: the policy to validate (default: policy.csv of the directory, edited or not)")
	flags.StringVarP(&f.Dir, "output", "o", "", "directory of the sweep, on several nodes one that all of them see")
	flags.BoolVar(&f.dryRun, "dry-run", false,
		"run nothing: print the next runs as a shell script, and about how long a sweep takes")
	flags.StringArrayVar(&f.from, "from", nil,
		"with --dry-run: go on from a log, a sweep CSV or a directory of them; may be repeated (--coll and --comm "+
			"default to what was measured)")
	flags.BoolVar(&f.init, "init", false, "print a plan file")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON, one object, when the sweep is finished")
	cli.Complete(cmd, "comm", func([]string) []string { return f.measuredComms(cmd) })
	return cmd
}

func (f *sweepFlags) run(cmd *cobra.Command, args []string) (err error) {
	switch {
	case f.asJSON && (f.init || f.dryRun):
		return cli.Usagef("--json excludes --init and --dry-run")
	case len(f.from) > 0 && !f.dryRun:
		return cli.Usagef("--from needs --dry-run: a sweep goes on from its own logs")
	case f.policy != "" && f.Proof == 0:
		return cli.Usagef("--policy needs --prove: a sweep makes its own policy")
	case f.policy == cli.StandardName:
		return cli.Usagef("--policy %s: a job cannot read standard input (needed: a file)", f.policy)
	}
	if f.init {
		if len(args) > 0 {
			return cli.Usagef("--init takes no plan file: it prints one")
		}
		return writePlanFile(cmd.OutOrStdout(), cmd.Flags(), bench.ChannelBounds(os.Getenv))
	}
	if f.Dir == "" {
		return cli.Usagef("no directory given (needed: -o DIRECTORY, new or of a sweep to go on with)")
	}
	if f.policy != "" { // a sweep takes hours: a mistake is better found before it
		if _, _, err := ask.ReadPolicy(f.choices.Topology.Inputs, f.policy); err != nil {
			return err
		}
	}
	kept := f.planFile()
	for _, file := range append(args, kept) {
		if err := readPlanFile(file, cmd.Flags()); err != nil && (file != kept || !errors.Is(err, os.ErrNotExist)) {
			return err
		}
	}
	o, err := f.options(cmd)
	if err != nil {
		return err
	}
	if f.dryRun {
		return sweep.DryRun(cmd.OutOrStdout(), o)
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	defer func() { err = cli.Interrupted(ctx, err) }()
	s, err := sweep.Open(o)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := cli.WriteWhole(kept, true, func(w io.Writer) error {
		return writePlanFile(w, cmd.Flags(), s.Bounds)
	}); err != nil {
		return err
	}
	if err := s.Run(ctx); err != nil {
		return f.resumeError(ctx, s, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "the sweep took %s\n", s.Summary())
	found := sweepJSON{Directory: f.Dir}
	err = f.finish(ctx, cmd, s, &found)
	found.NotMeasured = append([]string{}, s.NotMeasured()...)
	if f.asJSON && found.Fit.Groups != nil { // else it got nowhere
		err = errors.Join(err, cli.WriteJSON(cmd.OutOrStdout(), found))
	}
	return err
}

// planFile is the file that keeps a sweep's settings.
func (f *sweepFlags) planFile() string { return filepath.Join(f.Dir, "plan.yaml") }

// finish learns from all runs, and proves the policy if that was asked for.
func (f *sweepFlags) finish(ctx context.Context, cmd *cobra.Command, s *sweep.Sweep, found *sweepJSON) error {
	policy, err := f.learn(cmd, s, found)
	if err != nil {
		return err
	}
	if f.policy != "" {
		policy = f.policy
	}
	if policy != "" {
		if f.Proof > 0 {
			if err := f.proof(ctx, cmd, s, policy, found); err != nil {
				return err
			}
		}
		if err := f.tellJob(cmd.OutOrStdout(), s, policy, found); err != nil {
			return err
		}
	}
	if missing := s.NotMeasured(); len(missing) > 0 {
		return fmt.Errorf("not measured: %s (see the reasons above, and in %s)",
			strings.Join(missing, ", "), filepath.Join(f.Dir, "journal.jsonl"))
	}
	return nil
}

// resumeError says how, of an error that ended a sweep. If ctx did not end it, the same settings would fail again.
func (f *sweepFlags) resumeError(ctx context.Context, s *sweep.Sweep, err error) error {
	line := f.resumeCommand(f.Proof)
	if !s.Allocated() {
		job := s.Allocation()
		line = fmt.Sprintf("salloc %s %s, or sbatch %s --wrap=%s", job, line, job, cli.ShellWord(line))
	}
	err = fmt.Errorf("%w (to continue: %s)", err, line)
	if ctx.Err() == nil {
		err = fmt.Errorf("%w, once that is mended: an option that is given again replaces the one in %s", err,
			f.planFile())
	}
	return err
}

// resumeCommand is the command that goes on with a sweep, with so many runs of a proof. The folder keeps all other
// settings.
func (f *sweepFlags) resumeCommand(prove int) string {
	line := "tunefit sweep -o " + cli.ShellWord(f.Dir)
	if prove > 0 {
		line += fmt.Sprintf(" --prove=%d", prove)
	}
	if f.policy != "" {
		line += " --policy " + cli.ShellWord(f.policy)
	}
	return line
}

// options checks the flags.
func (f *sweepFlags) options(cmd *cobra.Command) (o sweep.Options, err error) {
	switch {
	case f.Proof < 0 || f.Proof > mostProof || f.Proof == 0 && cmd.Flags().Changed("prove"):
		return o, cli.Usagef("--prove=%d (allowed: 1 to %d)", f.Proof, mostProof)
	case f.Repetitions < 1 || f.Repetitions > 100:
		return o, cli.Usagef("--repetitions %d (allowed: 1 to 100)", f.Repetitions)
	case f.graph < 0:
		return o, cli.Usagef("--graph=%d (allowed: 1 or more launches of a graph, or 0 for none)", f.graph)
	case f.Silence < time.Second:
		return o, cli.Usagef("--limit %v (allowed: 1s or more)", f.Silence)
	}
	if err := f.choices.Check(); err != nil {
		return o, err
	}
	o = f.Options
	o.Choices, o.SizesNamed = &f.choices, cmd.Flags().Changed("sizes")
	o.Args, o.Bounds = strings.Fields(f.args), bench.ChannelBounds(os.Getenv)
	if name := perfrun.Repeats(o.Args); name != "" {
		return o, cli.Usagef("--perf-args %q has %s: the sweep itself repeats sizes, another configuration each time "+
			"(allowed: other options)", f.args, name)
	}
	o.Single = perfrun.WhySingle(o.Args)
	if f.graph > 0 {
		if bench.RunsGraphs(f.args) {
			return o, cli.Usagef("--graph=%d and --perf-args %q: both launch graphs (needed: one of them)", f.graph,
				f.args)
		}
		o.Args = append(o.Args, "-G", strconv.Itoa(f.graph))
	}
	var measured []*fit.Group
	if len(f.from) > 0 {
		if o.From, err = f.measured(cmd); err != nil {
			return o, err
		}
		measured = o.From.Groups
	}
	progress := cli.NewProgress(cmd.ErrOrStderr())
	o.Now = progress.Show
	o.Say = func(format string, args ...any) {
		progress.Clear()
		fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	}
	var jobSizes []uint64
	if f.profile == cli.StandardName {
		return o,
			cli.Usagef("--profile %s: standard input can be read only once (needed: a file, which the fit reads "+
				"again)", f.profile)
	}
	if f.profile != "" {
		if o.Job, err = readProfile(f.choices.Topology.Inputs, f.profile); err != nil {
			return o, err
		}
		o.Keys, jobSizes, err = subjectsOf(o.Job, f.profile, &f.choices.Grid, cmd.ErrOrStderr())
		if err != nil {
			return o, err
		}
	} else if o.Keys, err = f.choices.Named(measured); err != nil {
		return o, err
	}
	if len(o.Keys) == 0 {
		also := ""
		for i, g := range measured {
			also += "; "
			if i == 0 {
				also += "--from has "
			}
			also += g.Key.String()
		}
		here := ""
		if _, err := os.Stat(f.planFile()); errors.Is(err, os.ErrNotExist) {
			here = f.Dir + " holds no sweep to continue, and for a new one "
		}
		return o, cli.Usagef("%s--coll and --comm say what to measure, as --coll allreduce,allgather --comm 1x8,2x8%s",
			here, also)
	}
	var warnings []string
	if o.Settings, warnings, err = sweep.ParseSettings(f.try); err != nil {
		return o, cli.Usagef("--try %w", err)
	}
	cli.Notes(cmd.ErrOrStderr(), warnings...)
	if len(o.Settings) > 0 && len(f.from) > 0 {
		return o, cli.Usagef("--try excludes --from: a sweep compares settings, and for logs by hand "+
			"fit --runs %s does", runsFastest)
	}
	if o.Sizes, _, err = f.choices.Grid.ParseSizes(); err != nil {
		return o, err
	}
	if o.Sizes[0] == 0 {
		return o, cli.Usagef("--sizes %s (allowed: 1 or more)", f.choices.Grid.Sizes)
	}
	if f.profile != "" && !o.SizesNamed {
		o.Sizes, o.SizesNamed = jobSizes, true
	}
	for _, key := range o.Keys {
		if _, err := f.choices.Space(key, nil, ""); err != nil {
			return o, err
		}
	}
	if o.Library, err = f.library.Find(); err != nil {
		return o, err
	}
	if o.Library, err = filepath.Abs(o.Library); err != nil {
		return o, err
	}
	if _, err := os.Stat(o.Library); err != nil && !f.dryRun { // the script may run elsewhere
		return o, cli.Usagef("--plugin: %w", err)
	}
	o.PerProcess = bench.RanksPerProcess(f.args)
	if f.launch == "" { // the sweep goes on with the same one
		with, shared := f.launcherFor(&o)
		o.Shared = shared
		if err := cmd.Flags().Set("launch", with); err != nil {
			return o, err
		}
	}
	for _, key := range o.Keys {
		perNode := key.Ranks / key.Nodes
		switch {
		case key.Nodes > 1 && f.launch == launch.Local:
			return o,
				cli.Usagef("--launch local starts ranks on this machine only (%s needs mpirun, slurm or a command)",
					key)
		case o.PerProcess > 0 && perNode%o.PerProcess != 0:
			return o, cli.Usagef("--perf-args %q give each process %d GPUs, and nodes of %s have %d ranks (allowed: "+
				"a part of them)", f.args, o.PerProcess, key.Comm, perNode)
		case o.PerProcess > 0 && perNode != o.PerProcess && f.launch == launch.Local:
			return o, cli.Usagef("--launch local starts one process, and --perf-args %q give it %d GPUs of the %d of "+
				"%s (more start: mpirun, slurm, a command)", f.args, o.PerProcess, perNode, key.Comm)
		}
	}
	o.Launcher, err = launch.New(launch.Options{
		With: f.launch, Args: strings.Fields(f.launchArgs), Hosts: f.hosts, Prefix: strings.Fields(f.container),
	})
	if err != nil {
		return o, cli.Usagef("--launch: %w", err)
	}
	return o, nil
}

// measured reads what --from names.
func (f *sweepFlags) measured(cmd *cobra.Command) (*fit.Set, error) {
	files, found, err := walked(f.from)
	if err != nil {
		return nil, err
	}
	set, _, rejected, err := readSweeps(fit.NewPool(), f.choices.Topology.Inputs, cmd, files, found, true)
	if err == nil && set.Used == 0 && len(set.Failed) == 0 && len(set.Asked) == 0 {
		writeRows(cmd.ErrOrStderr(), set, rejected)
		err = errors.New("--from: not one usable measurement")
	}
	return set, err
}

// measuredComms names the communicators of what --from names, else of what the directory has.
func (f *sweepFlags) measuredComms(cmd *cobra.Command) []string {
	if len(f.from) == 0 {
		f.from = []string{filepath.Join(f.Dir, "sweep.csv")}
	}
	set, err := f.measured(cmd)
	if err != nil {
		return nil
	}
	var comms []nccl.Comm
	for _, g := range set.Groups {
		comms = append(comms, g.Key.Comm)
	}
	return cli.CommNames(comms)
}

// launcherFor is what starts the ranks where nobody says: one process a GPU, as jobs have, wherever something can start
// these. shared is why nothing can; "": something can, or --perf-args ask for one process.
func (f *sweepFlags) launcherFor(o *sweep.Options) (with, shared string) {
	_, noSrun := exec.LookPath("srun")
	alone := true // one process is what --perf-args ask for
	for _, key := range o.Keys {
		if key.Nodes > 1 {
			if noSrun == nil {
				return launch.Slurm, ""
			}
			return launch.MPIRun, ""
		}
		alone = alone && o.PerProcess == key.Ranks
	}
	if alone {
		return launch.Local, ""
	}
	if f.container != "" {
		return launch.Local, "it is not known whether the container has MPI (--launch)"
	}
	for _, key := range o.Keys {
		if program := perfrun.Program(key.Coll); !perfrun.HasMPI(f.Programs, program) {
			return launch.Local, program + " is not built with MPI=1"
		}
	}
	if noSrun == nil && os.Getenv("SLURM_JOB_ID") != "" {
		return launch.Slurm, ""
	}
	if _, err := launch.New(launch.Options{With: launch.MPIRun}); err != nil {
		return launch.Local, err.Error()
	}
	return launch.MPIRun, ""
}

// learn makes a policy of all that was measured, if that shows a gain. It returns the file of the policy; empty: there
// is none. A policy.csv that somebody edited is kept, and is the policy; what was measured makes another file then.
func (f *sweepFlags) learn(cmd *cobra.Command, s *sweep.Sweep, found *sweepJSON) (policy string, err error) {
	in := func(name string) string { return filepath.Join(f.Dir, name) }
	samples, failed := s.Samples()
	if len(samples) == 0 {
		return "", errors.New("not one usable measurement, not even of the default: nothing was written")
	}
	if err := cli.WriteWhole(in("sweep.csv"), true,
		func(w io.Writer) error { return bench.WriteTidy(w, samples, failed) }); err != nil {
		return "", err
	}
	if !slices.ContainsFunc(samples, func(m bench.Sample) bool { return m.Selection != bench.SelectionDefault }) {
		return "",
			fmt.Errorf("only the default was measured, so there is no policy: its times are in %s", in("sweep.csv"))
	}
	policy = in("policy.csv")
	made := in("policies/fitted.csv") // as the sweep last wrote it
	edited, err := differs(policy, made)
	if err != nil {
		return "", err
	}
	flags := fitFlags{
		env:   f.choices.Topology.Env,
		model: in("model.json"), csv: policy, report: in("report.html"),
		topo: f.choices.Topology.Topo, profile: f.profile, force: true, asJSON: f.asJSON,
	}
	if len(s.Settings) > 0 {
		flags.runs = runsFastest
	}
	if edited {
		flags.csv = made
	}
	if _, err := os.Stat(s.Topology()); err == nil {
		flags.found = s.Topology()
	}
	f.page, err = fitFiles(cmd, []string{in("sweep.csv")}, flags)
	if f.asJSON && f.page.Set != nil {
		found.Fit = newFitJSON(&flags, f.page)
	}
	noGain := errors.Is(err, errNoGain)
	if err == nil || noGain {
		if err := keepSettings(cmd.ErrOrStderr(), in("settings.conf"), f.page.Settings); err != nil {
			return "", err
		}
	}
	switch {
	case err != nil && !noGain:
		return "", err
	case edited && noGain:
		fmt.Fprintf(cmd.ErrOrStderr(), "kept %s, which is not as this sweep wrote it (it has none: %v)\n", policy,
			errNoGain)
		return policy, nil
	case edited:
		// It is as made if an earlier tunefit ended between writing the two.
		if edited, err = differs(policy, made); err == nil && edited {
			fmt.Fprintf(cmd.ErrOrStderr(), "kept %s, which is not as this sweep wrote it (%s is)\n", policy, made)
		}
		return policy, err
	case noGain: // that is an answer, and an older policy is none
		fmt.Fprintln(cmd.ErrOrStderr(), "there is no policy:", errNoGain)
		if err := os.Remove(policy); !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		return "", nil
	}
	text, err := os.ReadFile(policy)
	if err != nil {
		return "", err
	}
	return policy, cli.WriteText(made, text)
}

// differs reports whether a policy is there, and another file does not hold the same.
func differs(policy, from string) (bool, error) {
	text, err := os.ReadFile(policy)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	same, err := os.ReadFile(from)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	return err != nil || !bytes.Equal(text, same), nil
}

// notPlanned are the flags of tunefit sweep that are about one call of it.
var notPlanned = []string{"output", "dry-run", "from", "init", "json", "help", "prove", "policy"}

// writePlanFile writes all flags with their values and what they mean. It names bounds of channels, too.
func writePlanFile(w io.Writer, flags *pflag.FlagSet, bounds map[string]string) error {
	var out strings.Builder
	out.WriteString(`# What tunefit sweep measures, and how. Each setting is an option of the command,
# which has the last word. A # before a setting leaves it at its default.
#
# Under Slurm, on four nodes of eight GPUs:
#   salloc -N 4 --gpus-per-node=8 --exclusive tunefit sweep plan.yaml -o sweep
# with launch: slurm and launch-args: --mpi=pmix --cpu-bind=none
`)
	if len(bounds) > 0 {
		fmt.Fprintf(&out, "#\n# Runs are measured under these variables of the environment, and jobs have to have "+
			"them, too:\n#   %s\n", strings.Join(cli.Assignments(bounds), " "))
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notPlanned, f.Name) {
			return
		}
		fmt.Fprintf(&out, "\n# %s\n", f.Usage)
		value := f.Value.String()
		list, isList := f.Value.(pflag.SliceValue)
		if isList {
			value = "[" + strings.Join(list.GetSlice(), ", ") + "]"
			value = strings.ReplaceAll(value, ", ]", `, ""]`) // YAML drops an empty last one
		} else if text, err := yaml.Marshal(value); err == nil && f.Value.Type() == "string" {
			value = strings.TrimSpace(string(text))
		}
		set := "#" // the default, which may be another where other settings are
		if f.Changed {
			set = ""
		}
		fmt.Fprintf(&out, "%s%s: %s\n", set, f.Name, value)
	})
	_, err := io.WriteString(w, out.String())
	return err
}

// mostPlan bounds a file of settings, which has a few KiB.
const mostPlan = 1 << 20

// readPlanFile sets the flags that were not given.
func readPlanFile(name string, flags *pflag.FlagSet) error {
	text, err := safefile.Read(name, mostPlan)
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(document.Content) == 0 { // nothing but comments
		return nil
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: not settings (needed: NAME: VALUE, as tunefit sweep --init prints them)",
			name, top.Line)
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notPlanned, f.Name) {
			names = append(names, f.Name)
		}
	})
	seen := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		at := fmt.Sprintf("%s:%d:%d", name, key.Line, key.Column)
		switch {
		case !slices.Contains(names, key.Value):
			return fmt.Errorf("%s: unknown setting %s (%sallowed: %s)", at, wording.Quote(key.Value),
				wording.DidYouMean(key.Value, names), strings.Join(names, ", "))
		case seen[key.Value]:
			return fmt.Errorf("%s: %s is set twice", at, key.Value)
		}
		seen[key.Value] = true
		f := flags.Lookup(key.Value)
		if f.Changed {
			continue
		}
		values := []*yaml.Node{value}
		_, isList := f.Value.(pflag.SliceValue)
		if isList && value.Kind == yaml.SequenceNode {
			values = value.Content
		}
		var texts []string
		for _, v := range values {
			if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
				return fmt.Errorf("%s: %s: not a value (needed: one%s)", at, f.Name,
					map[bool]string{true: ", or a list, as [a, b]"}[isList])
			}
			if err := checkSubject(f.Name, v.Value); err != nil {
				// %v: the file is wrong, not the command line
				return fmt.Errorf("%s:%d:%d: %v", name, v.Line, v.Column, err)
			}
			texts = append(texts, v.Value)
		}
		if len(texts) == 0 {
			continue
		}
		err := flags.Set(f.Name, strings.Join(texts, ","))
		if err != nil {
			return fmt.Errorf("%s: %w", at, cli.WrongValue(err))
		}
	}
	return nil
}

// checkSubject reads what a setting names. Later, nobody knows where in a file it stands.
func checkSubject(setting, text string) (err error) {
	switch setting {
	case "coll":
		_, err = (&cli.CallFlags{Colls: strings.Split(text, ",")}).ParseColls()
	case "comm":
		_, err = (&cli.CallFlags{Comms: strings.Split(text, ",")}).ParseComms(nil)
	case "sizes":
		_, _, err = cli.ParseSizes(text)
	case "try":
		if name, value, begins := strings.Cut(text, "="); begins {
			err = sweep.CheckSetting(name, value)
		}
	}
	return err
}
