package command

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/explain"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func explainCommand(env ncclchoice.Env) *cobra.Command {
	f := explainFlags{from: ncclchoice.Flags{Env: env}}
	cmd := &cobra.Command{
		Use:   "explain COLLECTIVE SIZE --comm NODESxRANKS_PER_NODE",
		Short: "Show how one decision is made: rows, conditions, model, NCCL",
		Long: `Show how the decision about one call is made. It prints:
  - each row of the policy and why it does not match, the nearest rows first
  - the values that conditions see
  - what the model expects of each configuration, and why it decides or abstains
  - NCCL's estimates

Without --policy and --model it takes the files that a job started here would use.

NCCL's default is the measured one, if the model has it. Otherwise NCCL's estimates tell
it: those of the release of --nccl, for the machine of --topo. A job gets this decision
with that release.`,
		Example: `  tunefit explain allreduce 8M --comm 4x8 --policy configs/policies/example.csv
  tunefit explain allgather 64K --comm 2x8 --policy configs/policies/conditions.csv --topo configs/topo/dgx-h100.xml`,
		Args: cli.Args(2, 2, "a collective and a size, as allreduce 8M"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, comm, err := f.question(args)
			if err != nil {
				return err
			}
			d := f.decider(cmd)
			if d == (ask.Decider{}) {
				return cli.Usagef("nothing to explain (needed: --policy, --model, $%s or $%s)", tuner.EnvConfigFile,
					tuner.EnvModelFile)
			}
			a, err := ask.NewAsker(f.from, d)
			if err != nil {
				return err
			}
			q.Comm = a.Comm(comm)
			explained, err := a.Explain(d, q)
			if err != nil {
				return err
			}
			p := &explain.Path{Explained: explained}
			cli.Notes(cmd.ErrOrStderr(), a.Notes...)
			a.Note(cmd.ErrOrStderr(), []policy.Comm{q.Comm})
			return cli.Print(cmd.OutOrStdout(), f.json, p.JSON(a.Notes), func(w io.Writer) { p.Write(w, f.all) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.by.Policy, "policy", "", "policy file (default $"+tuner.EnvConfigFile+")")
	fl.StringVar(&f.by.Model, "model", "", "cost model (default $"+tuner.EnvModelFile+")")
	fl.StringVar(&f.comm, "comm", "", "communicator as NODESxRANKS_PER_NODE: 4x8 is 4 nodes of 8 ranks")
	registerCall(cmd, &f.call)
	fl.BoolVar(&f.all, "all", false, "show every row, in the file's order, and every configuration")
	fl.BoolVar(&f.json, "json", false, "print JSON, with everything")
	f.from.Register(cmd)
	f.from.RegisterCommName(cmd)
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return cli.CollNames(), cobra.ShellCompDirectiveNoFileComp
	}
	cli.Complete(cmd, "comm", func([]string) []string { return commsOf(f.from, f.decider(cmd)) })
	return cmd
}

type explainFlags struct {
	by        ask.Decider
	comm      string
	call      ask.Question
	all, json bool
	from      ncclchoice.Flags
}

// decider is the files named, else those of the job's environment.
func (f *explainFlags) decider(cmd *cobra.Command) ask.Decider {
	d := f.by
	if !cmd.Flags().Changed("policy") {
		d.Policy = os.Getenv(tuner.EnvConfigFile)
	}
	if !cmd.Flags().Changed("model") {
		d.Model = os.Getenv(tuner.EnvModelFile)
	}
	return d
}

func (f *explainFlags) question(args []string) (q ask.Question, c nccl.Comm, err error) {
	q = f.call
	if q.Coll, err = cli.ParseColl(args[0]); err != nil {
		if _, swapped := cli.ParseColl(args[1]); swapped == nil {
			return q, c, cli.Usagef("%s is no collective (did you mean: tunefit explain %s %s)", args[0],
				args[1], args[0])
		}
		return q, c, cli.Usagef("%w", err)
	}
	if q.Bytes, err = nccl.ParseBytes(args[1]); err != nil {
		return q, c, cli.Usagef("%w", err)
	}
	if q.Bytes < 1 || q.Bytes > 1<<50 {
		return q, c, cli.Usagef("a collective of %s (allowed: 1 byte to 1024T)", args[1])
	}
	if err = checkCall(q); err != nil {
		return q, c, err
	}
	if f.comm == "" {
		return q, c, cli.Usagef("which communicator? (needed: --comm NODESxRANKS_PER_NODE, as 4x8)")
	}
	c, err = cli.ParseComm(f.comm)
	return q, c, err
}
