package command

import (
	"time"

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
		Long: `Show the policy version of every live communicator on this machine, since when it is
active, changes under way and who has not acknowledged them, and changes that were
refused, with the reason and what to do. Root sees all users' jobs.

It lists communicators whose policy can change during the run, see
` + tuner.EnvReload + `. A version is the digest that the ranks log. Processes that only
another machine or container can see are "unknown". --rendezvous names the place where
ranks meet, or a folder one or two levels above. Where ranks of this machine have
` + tuner.EnvMetrics + ` set, it also shows how often NCCL has asked for a decision, and
when last: a policy that is never asked decides nothing.

Exit code: 0, also without jobs. 1 if ranks refuse their policy or model as it is now, or
if none was seen where not all could be looked at. With --prometheus, metrics tell this,
and it is 0.`,
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

func pushCommand(env cli.Env) *cobra.Command {
	f := livejobs.Push{Inputs: env.Inputs, Installed: env.Installed}
	cmd := &cobra.Command{
		Use:   "push POLICY.csv",
		Short: "Deploy a policy to running jobs, and wait until it is active",
		Long: `Check a policy or a model and put it in the place of the file that jobs read, as a
whole. Then wait until every live communicator that reads this file has switched, also
those that start on the earlier version meanwhile. It says which has not, and why. Below
a folder of several jobs it waits for all of them.

It prints what tunefit check warns of, and does not write a policy that has an error, or
one from simulated times. It takes two things for slips of the hand: a new file that no
job reads, while jobs read others; and a missing rendezvous beside one where jobs read the
file. It does not look for jobs that meet elsewhere than --rendezvous names.

Exit code: 0 if all have switched, or no job has to (with --timeout 0: if it is written).
1 if nothing was written or not all have switched. The ranks then go on trying, as they
do after Ctrl-C (130). 3 if it is written, and not all jobs can be seen from here, as
where a job's folder cannot be read.`,
		Example: `  tunefit push configs/policies/example.csv --to policy.csv`,
		Args:    cli.Args(1, 1, "the policy or model file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Stderr = cmd.ErrOrStderr()
			return f.Run(cmd.OutOrStdout(), args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.To, "to", "",
		"file that the jobs read (default: $"+tuner.EnvConfigFile+", for a model $"+tuner.EnvModelFile+")")
	cli.Duration(flags, &f.Timeout, "timeout", time.Minute, "longest time to wait; 0: do not wait")
	rendezvousFlag(cmd, &f.Rendezvous)
	flags.BoolVar(&f.Force, "force", false,
		"also push what comes from simulated times, a new file that no running job reads, or to a new rendezvous")
	flags.BoolVar(&f.JSON, "json", false, "print JSON, one object, at the end, also if nothing was written")
	return cmd
}

func gcCommand() *cobra.Command {
	var f livejobs.Cleanup
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove what ended jobs left at their rendezvous",
		Long: `Remove the records of communicators that nobody has used for a minute, and whose ranks
have ended them, or ran on this machine and are dead. In /dev/shm, also remove the
directories that no process uses. gc does not disturb running jobs.

What ran on other machines stays, unless --older-than says that no job runs that long. A
quiet job records nothing for days, so give more than the longest time a job may run.

Exit code: 0 if all could be cleaned, 1 if a folder could not. It names such a folder.`,
		Example: `  tunefit gc --dry-run
  tunefit gc --dry-run --rendezvous . --older-than 336h`,
		Args: cli.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.Run(cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	rendezvousFlag(cmd, &f.Rendezvous)
	cli.Duration(flags, &f.OlderThan, "older-than", 0,
		"also remove communicators whose processes cannot be seen from here, if they recorded nothing for this "+
			"time, 24h or more")
	flags.BoolVar(&f.DryRun, "dry-run", false, "say what it would remove, and remove nothing")
	flags.BoolVar(&f.JSON, "json", false, "print JSON, one object")
	return cmd
}
