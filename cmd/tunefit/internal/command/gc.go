package command

import (
	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/livejobs"
)

func gcCommand() *cobra.Command {
	var f livejobs.Cleanup
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove what ended jobs left at their rendezvous",
		Long: `Remove the records of communicators that nobody has used for a minute. Each of their
ranks has ended them, or it ran on this machine and is dead. In /dev/shm, also
remove the directories that no process uses. gc does not disturb running jobs.

It cannot see from here what became of processes on other machines. Their communicators
stay, unless --older-than says that no job runs that long. A quiet job records nothing
for days, so give more than the longest time a job may run.

Below a folder of several jobs it goes through all of them. It names a folder that it
could not clean, and the exit code is 1.`,
		Example: `  tunefit gc --dry-run
  tunefit gc --dry-run --rendezvous . --older-than 336h`,
		Args: cli.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.Run(cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	rendezvousFlag(cmd, &f.Rendezvous)
	cli.Duration(flags, &f.OlderThan, "older-than", 0,
		"also remove communicators with processes that cannot be seen from here and nothing recorded for this time, "+
			"24h or more")
	flags.BoolVar(&f.DryRun, "dry-run", false, "say what it would remove, and remove nothing")
	return cmd
}
