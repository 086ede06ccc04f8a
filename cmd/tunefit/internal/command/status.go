package command

import (
	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/livejobs"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// rendezvousFlag adds --rendezvous.
func rendezvousFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "rendezvous", "",
		"where the ranks meet: a directory or etcd://HOST:PORT/PREFIX, as in "+tuner.EnvRendezvous+
			", or one above those of several jobs (default: that variable, else /dev/shm of this machine)")
}

func statusCommand() *cobra.Command {
	var f livejobs.View
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the policy version of every live communicator, and changes under way",
		Long: `Show the policy version of every live communicator on this machine, and since when it
is in force. Show changes under way and who has not acknowledged them, and changes that
were refused, with the reason and what to do. Root sees all users' jobs.

It lists communicators whose policy can change during the run: ` + tuner.EnvReload + ` is
live, and the log does not say why not. A version is the digest that the ranks log.
Processes that only another machine or container can see are "unknown".

Jobs that have ` + tuner.EnvRendezvous + ` set meet where that says. --rendezvous names that
place, or a folder above, or a shorter prefix in etcd: it looks one and two levels
below, at 1000 folders at most.
Where several jobs are there, a line for each comes first.

Where ranks of this machine have ` + tuner.EnvMetrics + ` set, it also shows how often NCCL has
asked for a decision, and when last. A policy that is never asked decides nothing.

It reads what the ranks have written down for each other and writes nothing itself.`,
		Example: `  tunefit status
  tunefit status --rendezvous . --all --json
  tunefit status --prometheus`,
		Args: cli.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.JSON && f.Watch || f.Prometheus && (f.JSON || f.Watch) {
				return cli.Usagef("--watch, --json and --prometheus exclude each other")
			}
			f.Warnings = cmd.ErrOrStderr()
			return f.Run(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	rendezvousFlag(cmd, &f.Rendezvous)
	flags.BoolVar(&f.All, "all", false, "also list what communicators that have ended left behind")
	flags.BoolVar(&f.Watch, "watch", false,
		"refresh every second until Ctrl-C; not on a terminal: print again after each change")
	flags.BoolVar(&f.JSON, "json", false, "print JSON, one object per communicator")
	flags.BoolVar(&f.Prometheus, "prometheus", false,
		"print Prometheus' text format, for a file of node_exporter's textfile collector")
	return cmd
}
