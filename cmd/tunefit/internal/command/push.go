package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/livejobs"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func pushCommand(env ncclchoice.Env) *cobra.Command {
	f := livejobs.Push{Inputs: env.Inputs}
	cmd := &cobra.Command{
		Use:   "push POLICY.csv",
		Short: "Put a policy into force in running jobs, and wait until it is",
		Long: `Check a policy and put it in the place of the file that jobs read. Then wait until every
live communicator that reads this file has switched. It says which has not, and why. It
does the same with a model (MODEL.json).

Below a folder of several jobs it waits for all of them, and names each by its folder.
What starts on the earlier version meanwhile is waited for, too.

It does not write a policy that has an error. It replaces the file as a whole by a
rename, and keeps its owner, its permissions and symbolic links to it. It does not look
for jobs that meet elsewhere than --rendezvous names. Before the first job this folder
may be missing: then push writes the file and says so.

Exit code: 0 if all have switched, or none has to. 1 if nothing was written or not all
have switched. The ranks then go on trying. It is also 1 if that cannot be seen from
here, as where a job's folder cannot be read.`,
		Example: `  tunefit push configs/policies/example.csv --to policy.csv`,
		Args:    cli.Args(1, 1, "the policy or model file"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.Run(cmd.OutOrStdout(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.To, "to", "",
		"file that the jobs read (default: $"+tuner.EnvConfigFile+", for a model $"+tuner.EnvModelFile+")")
	cli.Duration(flags, &f.Timeout, "timeout", time.Minute, "longest time to wait; 0: do not wait")
	rendezvousFlag(cmd, &f.Rendezvous)
	flags.BoolVar(&f.JSON, "json", false, "print JSON, one object, when the wait is over")
	return cmd
}
