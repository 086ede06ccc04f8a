package main

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/doctor"
	"github.com/spf13/cobra"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	var own cli.LibraryFlag
	var o doctor.Options
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether a job's environment is sound",
		Long: `Say whether a job would find the tuner, NCCL, its files and its rendezvous in this
environment: what is wrong first, with what to do, then what is fine. Run it where the
job runs and as the job is run (in its container, through its launcher, as its user),
for the environment counts, and on each node; it takes at most three seconds, and
leaves nothing behind.

The files' version is a digest of their meaning: it must be the same on all nodes.

Exit code: 0 if there is nothing but notes, 1 with warnings or errors, 2 if something
could not be examined.`,
		Example: `  tunefit doctor
  srun -N 4 tunefit doctor --nodes 4
  tunefit doctor --nccl /opt/nccl/lib/libnccl.so.2`,
		Args: cli.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Nodes < 1 {
				return cli.Usagef("--nodes %d: a job has at least 1", o.Nodes)
			}
			if path, err := own.Find(); err == nil {
				o.Library = path
			}
			findings := doctor.Examine(o)
			var err error
			if asJSON {
				err = cli.WriteJSON(cmd.OutOrStdout(), findings)
			} else {
				err = doctor.Write(cmd.OutOrStdout(), findings)
			}
			if err != nil {
				return err
			}
			return cli.ExitWith(doctor.ExitCode(findings))
		},
	}
	own.Register(cmd, "of this tunefit, to compare with")
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON, one object per finding")
	f.IntVar(&o.Nodes, "nodes", 1, "nodes that the job has")
	f.StringVar(&o.NCCL, "nccl", "", "libnccl.so.2 that the job uses (default those found)")
	return cmd
}
