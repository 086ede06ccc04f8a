package main

import (
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/jobs"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/spf13/cobra"
)

func pushCommand() *cobra.Command {
	var f jobs.Push
	cmd := &cobra.Command{
		Use:   "push POLICY.csv",
		Short: "Put a policy into force in running jobs, and wait until it is",
		Long: `Check a policy, put it in the place of the file that jobs run on, and wait until
every live communicator that reads this file has switched, or say which has not and
why. A model (MODEL.json) goes the same way.

A policy with an error is not written. The file is replaced as a whole by a rename;
owner, permissions and symbolic links to it stay. Exit code 0: all have switched, or none
has to. 1: nothing was written, or not all have switched (the ranks go on trying), or it
cannot be seen from here whether all have. Jobs that meet elsewhere than --rendezvous
names are not looked for.`,
		Example: `  tunefit push configs/policies/example.csv --to policy.csv`,
		Args:    cli.Args(1, 1, "the policy or model file"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.Run(cmd.OutOrStdout(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.To, "to", "", "file that the jobs read (default: $"+tuner.EnvConfigFile+", for a model $"+tuner.EnvModelFile+")")
	cli.Duration(flags, &f.Timeout, "timeout", time.Minute, "longest time to wait; 0: do not wait")
	rendezvousFlag(cmd, &f.Rendezvous)
	return cmd
}
