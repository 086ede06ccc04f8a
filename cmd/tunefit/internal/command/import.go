package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

type importFlags struct {
	in     *cli.Inputs
	output string
	force  bool
	coll   string
	comm   string

	algo, proto string
	channels    int
	byDefault   bool
	with        []string

	profile bool
	steps   int

	asJSON bool
}

// importJSON is what import --json prints.
type importJSON struct {
	Output string         `json:"output"`
	Rows   int            `json:"rows"`
	Files  []importedFile `json:"files"` // of measurements
	Notes  []string       `json:"notes"` // files left out, and what is doubtful
}

// importedFile is a file that was read.
type importedFile struct {
	File     string         `json:"file"`
	Format   string         `json:"format"`
	Kept     int            `json:"kept"`
	Assumed  int            `json:"assumed_default"` // of those kept: nothing tells what ran
	Labels   map[string]int `json:"labels"`          // of those kept: by what tells what ran
	Rejected []rejectedJSON `json:"rejected"`
}

type rejectedJSON struct {
	At     string `json:"at"` // the first
	Count  int    `json:"count"`
	Reason string `json:"reason"`
}

func importCommand(env cli.Env) *cobra.Command {
	f := importFlags{in: env.Inputs}
	cmd := &cobra.Command{
		Use:   "import FILE|DIRECTORY...",
		Short: "Turn logs of nccl-tests into a sweep CSV",
		Long: `Turn logs of nccl-tests into a sweep CSV: a row for each measured time, with the
algorithm, protocol and channels that ran, as far as anything tells.

It reads the output of nccl-tests and rccl-tests of any version, behind any launcher and
between NCCL's log lines, their JSON (-J), sweeps, and the CSV of NCCL's
optimize_config.py. FILE - is the standard input. A directory stands for all files below
it. gzip is unpacked. A file has 4 000 000 times at most.

These tell what ran, the most trusted first:
  - --algo, --proto and --channels
  - NCCL's log (NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING), or RCCL's
    columns (-A 1)
  - NCCL_ALGO, NCCL_PROTO and NCCL_MIN_NCHANNELS = NCCL_MAX_NCHANNELS by --with, in NCCL's
    log or in the JSON's env
If nothing tells, the row is assumed to be NCCL's default, unless a tuner ran. What else a
file says (commands, exports, headings, its name) is a mention. If nothing confirms it, the
column variables has it with a "?", the row is not compared with others, and import says
which flag answers: --default, --algo or --with.

It says why rows cannot be used. A file without measurements is an error (in a directory
it is left out), and so is one of which many rows cannot be read, unless --force is given.
Of files with the same content it reads one.

It makes a job profile of the directory of NCCL_TUNER_RECORD, of the output of NCCL's
inspector, and with --profile of logs.`,
		Example: `  tunefit import logs/*.txt -o sweeps/cluster.csv
  tunefit import ring.csv --coll allreduce --comm 2x8 > sweep.csv
  tunefit import inspector*.json --steps 8 -o job.csv
  tunefit import recorded/ --steps 8 -o recorded.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no file given (needed: one log, JSON or CSV file, or more, or a directory of them)")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return importFiles(cmd, args, f)
		},
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "file to write (default: standard output)")
	cmd.Flags().BoolVar(&f.force, "force", false,
		"overwrite the output, and read files of which many rows cannot be read")
	cmd.Flags().StringVar(&f.coll, "coll", "", "collective of the rows in files that do not name theirs, as allreduce")
	cmd.Flags().StringVar(&f.comm, "comm", "",
		"communicator, as NODESxRANKS_PER_NODE: 2x8. NCCL's nodes, not hosts. NCCL's log overrides it")
	cmd.Flags().StringVar(&f.algo, "algo", "", "algorithm that ran, as ring, whatever the files say")
	cmd.Flags().StringVar(&f.proto, "proto", "", "protocol that ran, as ll128, whatever the files say")
	cmd.Flags().IntVar(&f.channels, "channels", 0, "number of channels that ran, whatever the files say")
	cmd.Flags().BoolVar(&f.byDefault, "default", false,
		"NCCL chose where nothing tells what ran, whatever the name of a file or its text mentions")
	cmd.Flags().StringArrayVar(&f.with, "with", nil,
		"variable or option that the runs had, as NCCL_IB_TC=106 or -R=1, whatever the files say; NAME= if it was not "+
			"set (repeatable)")
	cmd.Flags().BoolVar(&f.profile, "profile", false,
		"make a job profile, of the recorder's files, the inspector's output and logs with the library's decisions")
	cmd.Flags().IntVar(&f.steps, "steps", 0,
		"of a job profile: how many steps of training were recorded (default: not known)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false,
		"with -o: print JSON, one object, with what was kept and rejected of each file")
	return cmd
}

func (f *importFlags) options() (bench.Options, error) {
	opts := bench.Options{Default: f.byDefault, With: map[string]string{}}
	for _, setting := range f.with {
		name, value, ok := strings.Cut(setting, "=")
		if !ok || !bench.IsSetting(name) {
			return opts, cli.Usagef("--with %s (allowed: NAME=VALUE of a variable of NCCL or its network, as "+
				"NCCL_IB_QPS_PER_CONNECTION=4, or of an option of nccl-tests, as -R=1; without a value: it was not "+
				"set)", wording.Quote(setting))
		}
		opts.With[name] = value
	}
	if f.algo != "" || f.proto != "" || f.channels != 0 {
		said := nccl.Config{Cell: nccl.NoCell, Channels: f.channels}
		var err error
		if f.algo != "" {
			if said.Algo, err = nccl.Algos.Parse(f.algo); err != nil {
				return opts, cli.Usagef("--algo: %w", err)
			}
		}
		if f.proto != "" {
			if said.Proto, err = nccl.Protos.Parse(f.proto); err != nil {
				return opts, cli.Usagef("--proto: %w", err)
			}
		}
		switch {
		case f.channels < 0 || f.channels > nccl.MaxChannels:
			return opts, cli.Usagef("--channels %d (allowed: 1 to %d)", f.channels, nccl.MaxChannels)
		case f.byDefault:
			return opts, cli.Usagef("--default says that NCCL chose (allowed: no --algo, --proto, --channels with it)")
		}
		opts.Config = &said
	}
	if f.coll != "" {
		coll, err := cli.ParseColl(f.coll)
		if err != nil {
			return opts, cli.Usagef("--coll: %w", err)
		}
		opts.Coll = &coll
	}
	if f.comm != "" {
		c, err := cli.ParseComm(f.comm)
		if err != nil {
			return opts, err
		}
		opts.Nodes, opts.Ranks = c.Nodes, c.Ranks
	}
	return opts, nil
}

func importFiles(cmd *cobra.Command, args []string, f importFlags) error {
	opts, err := f.options()
	if err != nil {
		return err
	}
	files, found, err := walked(args)
	if err != nil {
		return err
	}
	if f.output == cli.StandardName {
		f.output = ""
	}
	if f.asJSON && f.output == "" {
		return cli.Usagef("--json needs -o FILE: what is imported goes to standard output otherwise")
	}
	if err := cli.MayWrite(f.output, f.force, files...); err != nil {
		return err
	}
	if job, err := f.ofJob(files); err != nil {
		return err
	} else if job {
		return f.importProfile(cmd, files, found)
	}
	in := newReader(f.in, cmd, files, found, f.force)
	in.opts = opts
	var results []*bench.Result
	in.each(files, func(r *bench.Result, _ string) { results = append(results, r) })
	if err := in.finish(cmd.ErrOrStderr()); err != nil {
		return fmt.Errorf("%w\nnothing was written (import the directory instead: files without measurements are left "+
			"out then)", err)
	}
	var samples [][]bench.Sample
	kept := 0
	for _, r := range results {
		samples = append(samples, r.Samples, r.Failed, r.NotOffered)
		kept += len(r.Samples)
	}
	if !f.asJSON {
		writeImport(cmd.ErrOrStderr(), results)
	}
	if kept == 0 {
		return errors.New("not one usable measurement: nothing was written")
	}
	if err := cli.WriteOrPrint(cmd.OutOrStdout(), f.output, f.force, func(w io.Writer) error {
		return bench.WriteTidy(w, samples...)
	}); err != nil || !f.asJSON {
		return err
	}
	return cli.WriteJSON(cmd.OutOrStdout(), newImportJSON(f.output, kept, results, in.notes))
}

func newImportJSON(output string, rows int, results []*bench.Result, notes []bench.Note) importJSON {
	printed := importJSON{Output: output, Rows: rows, Files: []importedFile{}, Notes: []string{}}
	for _, r := range results {
		file := importedFile{File: r.File, Format: string(r.Format), Kept: len(r.Samples), Assumed: r.Assumed,
			Labels: map[string]int{}, Rejected: []rejectedJSON{}}
		for o, n := range r.Labels {
			if n > 0 {
				file.Labels[bench.Origin(o).String()] = n
			}
		}
		for _, rej := range r.Rejected {
			file.Rejected = append(file.Rejected, rejectedJSON{rej.First(r.File), rej.Count, rej.Reason})
		}
		printed.Files = append(printed.Files, file)
		notes = append(notes, r.Notes...)
	}
	for _, n := range notes {
		printed.Notes = append(printed.Notes, n.String())
	}
	return printed
}

// writeImport prints a line for each file, then why times were rejected and what is doubtful.
func writeImport(w io.Writer, results []*bench.Result) {
	tw := cli.NewTable(w)
	tw.Row("file", "format", "kept", "rejected", "labels from")
	kept, rejected := 0, 0
	for _, r := range results {
		kept += len(r.Samples)
		rejected += r.NumRejected()
		tw.Row(r.File, r.Format, len(r.Samples), r.NumRejected(), labelCounts(r))
	}
	if len(results) > 1 {
		tw.Row("total", fmt.Sprintf("%d files", len(results)), kept, rejected)
	}
	tw.Flush()
	for _, r := range results {
		for _, rej := range r.Rejected {
			fmt.Fprintf(w, "%s: rejected %d: %s\n", rej.First(r.File), rej.Count, rej.Reason)
		}
		for _, n := range r.Notes {
			fmt.Fprintf(w, "%s\n", n)
		}
		if r.Assumed > 0 {
			fmt.Fprintf(w, "%s: %s assumed to be of NCCL's default: nothing tells what ran (NCCL_DEBUG=INFO with "+
				"NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING makes NCCL tell)\n", r.File, wording.Plural(r.Assumed, "time"))
		}
	}
}

// labelCounts lists where the labels come from, the most trusted first.
func labelCounts(r *bench.Result) string {
	var parts []string
	for o := bench.NumOrigins - 1; o >= 0; o-- {
		if n := r.Labels[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", o, n))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// ofJob reports whether import makes a job profile: --profile asks for it, or a file is the recorder's or the
// inspector's.
func (f *importFlags) ofJob(files []string) (job bool, err error) {
	job = f.profile || slices.ContainsFunc(files, func(file string) bool {
		kind, _ := f.in.Kind(file) // reading it says why
		return kind == cli.KindRecording
	})
	switch {
	case job && (f.coll != "" || f.comm != "" || f.algo != "" || f.proto != "" || f.channels != 0 || f.byDefault):
		return job, cli.Usagef("--coll, --comm, --algo, --proto, --channels and --default are for measurements, not " +
			"for a job profile")
	case !job && f.steps != 0:
		return job, cli.Usagef("--steps %d is for a job profile, and none of the files is the recorder's or the "+
			"inspector's output (--profile takes logs)", f.steps)
	}
	return job, mayCount(f.steps)
}

// mayCount refuses a number of steps that cannot be.
func mayCount(steps int) error {
	if steps < 0 || steps > 1<<40 {
		return cli.Usagef("--steps %d (allowed: 1 or more, 0: not known)", steps)
	}
	return nil
}

func (f *importFlags) importProfile(cmd *cobra.Command, files []string, found map[string]bool) error {
	p, err := readJob(f.in, cmd, files, found, f.steps)
	if err != nil {
		return fmt.Errorf("%w\nnothing was written", err)
	}
	if !f.asJSON {
		cli.Notes(cmd.ErrOrStderr(), p.Notes...)
		fmt.Fprintf(cmd.ErrOrStderr(), "a job profile of %s\n", wording.Plural(len(p.Entries), "row"))
	}
	if err := cli.WriteOrPrint(cmd.OutOrStdout(), f.output, f.force, p.Write); err != nil || !f.asJSON {
		return err
	}
	return cli.WriteJSON(cmd.OutOrStdout(), importJSON{Output: f.output, Rows: len(p.Entries), Files: []importedFile{},
		Notes: append([]string{}, p.Notes...)})
}

// readJob makes a profile of the files of one job. It reads files with the same content once. Of the files found in a
// directory, only an error in one of the recorder or the inspector counts.
func readJob(in *cli.Inputs, cmd *cobra.Command, files []string, found map[string]bool,
	steps int) (*profile.Profile, error) {
	job := profile.NewJob()
	known := map[string]bool{}
	var failed []error
	shown := newReading(cmd.ErrOrStderr(), files)
	defer shown.Clear()
	for _, file := range files {
		shown.next(file)
		err := readOfJob(in, job, file, known, shown)
		if kind, _ := in.Kind(file); err != nil && found[file] && kind != cli.KindRecording {
			shown.Clear()
			fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s\n", wording.Line(err.Error()))
		} else if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	p, err := job.Profile(steps)
	if err == nil && len(p.Entries) == 0 {
		err = errors.New("not one collective that tuners are asked about is in these files (needed of a log: " +
			profile.LogVariables + ")" + strings.Join(append([]string{""}, p.Notes...), "; "))
	}
	return p, err
}

func readOfJob(inputs *cli.Inputs, job *profile.Job, file string, known map[string]bool, shown *reading) error {
	kind, err := inputs.Kind(file)
	if err != nil {
		return err
	}
	if file != cli.StandardName { // it is read once anyway
		digest, err := digestOf(inputs, file, cli.KindRecording, cli.KindMeasurements)
		if err != nil || known[digest] {
			return err
		}
		known[digest] = true
	}
	in, err := inputs.Open(file, cli.KindRecording, cli.KindMeasurements)
	if err != nil {
		return err
	}
	defer in.Close()
	called, text := cli.Called(file), io.TeeReader(in, shown.within(in))
	switch head, _ := in.Peek(len(record.Head)); {
	case kind != cli.KindRecording:
		return job.Log(called, text)
	case string(head) == record.Head:
		return job.Recorder(called, text)
	}
	return job.Inspector(called, text)
}
