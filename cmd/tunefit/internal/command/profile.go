package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

type profileFlags struct {
	by     ask.Decider
	steps  int
	asJSON bool
	from   ncclchoice.Flags
}

func profileCommand(env ncclchoice.Env) *cobra.Command {
	f := profileFlags{from: ncclchoice.Flags{Env: env}}
	cmd := &cobra.Command{
		Use:   "profile FILE|DIRECTORY...",
		Short: "Print what a job does with NCCL, and what a policy would make of it",
		Long: `Print what a job does with NCCL: where its communication time goes, by collective,
communicator and size, and what runs there now. With --policy, --model or both it also
prints what they decide there, and what the model expects that to save.

It reads a job profile, or what tunefit import makes one of:
  - the directory of ` + tuner.EnvRecord + `
  - the output of NCCL's inspector
  - a job's log, in one file or several, also gzip: of NCCL (NCCL_DEBUG=INFO,
    NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL) or with the library's decisions
    (NCCL_TUNER_LOG=decisions)
All files must be of one job. With --policy it says why something else ran than the
policy says, as far as the files tell, in the release of NCCL that a log names.

Shares are of the time if that is known of nearly all calls, else of the bytes. A -
means not known: logs of decisions have no counts, no log has times, and times need
the files of all ranks. Calls are those of one rank, the mean over the ranks that were recorded. It
counts what the model expects to save only where the job runs NCCL's default, or
where nothing tells what it runs.`,
		Example: `  tunefit profile job.csv
  tunefit profile recorded/ --steps 8
  tunefit profile inspector*.json --steps 8 --json
  tunefit profile job.log --policy tuner.csv
  tunefit profile job.csv --model model.json`,
		Args: cli.Args(1, -1, "a job profile, or what the inspector or the library wrote of a job"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVar(&f.by.Policy, "policy", "", "policy file: say what it decides")
	cmd.Flags().StringVar(&f.by.Model, "model", "", "cost model: say what it decides, and what is expected of that")
	cmd.Flags().IntVar(&f.steps, "steps", 0,
		"how many steps of training were recorded (default: as the profile says, or not known)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	f.from.Register(cmd)
	return cmd
}

func (f *profileFlags) run(cmd *cobra.Command, args []string) error {
	if err := mayCount(f.steps); err != nil {
		return err
	}
	if f.by == (ask.Decider{}) {
		for _, name := range []string{"nccl", "topo"} {
			if cmd.Flags().Changed(name) {
				return cli.Usagef("--%s needs --policy or --model, whose decisions it is for", name)
			}
		}
	}
	p, err := readProfiled(f.from.Inputs, cmd, args, f.steps)
	if err != nil {
		return err
	}
	v := newProfileView(p)
	if f.by != (ask.Decider{}) {
		if err := f.decide(cmd.ErrOrStderr(), v); err != nil {
			return err
		}
	}
	cli.Notes(cmd.ErrOrStderr(), p.Notes...)
	return cli.Print(cmd.OutOrStdout(), f.asJSON, v.json(), v.write)
}

// readProfiled reads a profile, or makes one of a job's files.
func readProfiled(in *cli.Inputs, cmd *cobra.Command, args []string, steps int) (*profile.Profile, error) {
	files, found, err := walked(args)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if kind, err := in.Kind(file); err != nil || kind != cli.KindProfile {
			continue
		}
		switch {
		case len(files) > 1:
			return nil,
				cli.Usagef("%s is a job profile and stands alone (needed: one profile, or several files of the "+
					"inspector or the library)", file)
		case steps != 0:
			return nil,
				cli.Usagef("--steps %d: a job profile says itself what is known of its steps, in calls_per_step "+
					"(--steps is for tunefit import)", steps)
		}
		return readProfile(in, file)
	}
	return readJob(in, cmd, files, found, steps)
}

// readProfile reads the file of --profile.
func readProfile(in *cli.Inputs, file string) (*profile.Profile, error) {
	text, err := in.Text(file, cli.KindProfile)
	if err != nil {
		return nil, err
	}
	return profile.Read(cli.Called(file), text)
}

// decide asks the policy and the model about every call whose size is known.
func (f *profileFlags) decide(notes io.Writer, v *profileView) error {
	if _, release, ok := nccl.MeasuredWith(strings.TrimPrefix(v.NCCL, "RCCL ")); ok && f.from.NCCL == "" &&
		release >= nccl.Oldest {
		f.from.NCCL = release.String()
		cli.Notes(notes, fmt.Sprintf("for NCCL %s, which the log names (--nccl names another release)", release))
	}
	a, err := ask.NewAsker(f.from, f.by)
	if err != nil {
		return err
	}
	v.by = f.by
	var shown []policy.Comm
	comms := map[nccl.Comm]policy.Comm{}
	for _, g := range v.bins {
		if g.Nodes == 0 {
			continue
		}
		c, ok := comms[g.Comm]
		if !ok {
			c = a.Comm(g.Comm)
			comms[g.Comm], shown = c, append(shown, c)
		}
		for _, e := range g.Entries {
			if e.DecidedBy == profile.ByNoTuner {
				continue
			}
			answers, err := a.Ask(f.by, ask.Question{Call: e.Call, Comm: c, PipeOps: 1}, e.Bytes)
			if err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
			v.outcomes[e.CallKind] = answers[0]
		}
	}
	cli.Notes(notes, a.About(f.by, shown, false)...)
	a.Note(notes, shown)
	return nil
}
