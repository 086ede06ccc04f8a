package main

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/jobs"
	"github.com/spf13/cobra"
)

func gcCommand() *cobra.Command {
	var f jobs.Cleanup
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove what jobs that have ended left behind where their ranks met",
		Long: `Remove the records of communicators all of whose ranks have ended them or were on
this machine and are dead, for a minute at least; and in /dev/shm the directories
that no process uses. Jobs that run are not disturbed.

What became of processes on other machines cannot be seen from here. Their
communicators stay, unless --older-than says that no job runs that long: a quiet job
records nothing for days. Give more than the longest time a job may run.`,
		Example: `  tunefit gc --dry-run
  tunefit gc --dry-run --rendezvous . --older-than 336h`,
		Args: cli.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.Run(cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	rendezvousFlag(cmd, &f.Rendezvous)
	cli.Duration(flags, &f.OlderThan, "older-than", 0, "also remove communicators with processes that cannot be seen from here and nothing recorded for this time, 24h or more")
	flags.BoolVar(&f.DryRun, "dry-run", false, "only say what would be removed")
	return cmd
}
