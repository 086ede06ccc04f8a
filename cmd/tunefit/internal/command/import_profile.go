package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// ofJob reports whether import makes a job profile: --profile asks for it, or a file is the recorder's or the
// inspector's.
func (f *importFlags) ofJob(files []string) (job bool, err error) {
	for _, file := range files {
		kind, _ := f.in.Kind(file) // reading it says why
		job = job || kind == cli.KindRecording
	}
	job = job || f.profile
	switch {
	case job && (f.coll != "" || f.comm != "" || f.algo != "" || f.proto != "" || f.channels != 0 || f.byDefault):
		return job,
			cli.Usagef("--coll, --comm, --algo, --proto, --channels and --default are for measurements (allowed with " +
				"a job profile: -o, --force, --steps)")
	case !job && f.steps != 0:
		return job,
			cli.Usagef("--steps %d is for a job profile, and none of the files is the recorder's or the inspector's "+
				"output (--profile takes logs with the library's decisions)", f.steps)
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
