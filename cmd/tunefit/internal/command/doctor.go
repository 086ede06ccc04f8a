package command

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/doctor"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	var own cli.LibraryFlag
	var o doctor.Options
	var launcher string
	var answer bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether a job's environment is sound",
		Long: fmt.Sprintf(`Say whether a job would find the tuner, NCCL, its files and its rendezvous in this
environment: first what is wrong and what to do, then what is fine. Run it as the job
runs: on its nodes, in its container, through its launcher, as its user. It takes three
seconds at most and leaves nothing behind.

With --launch it examines all nodes at once: the launcher starts one process on each node,
as the job's does, and finds tunefit at the same path there. Findings of some nodes have
the nodes' names. It also prints where nodes differ although each is sound. Each node has
%v. A node that has not answered %v after another one did is reported as missing.

Exit code: 0 if there is nothing but notes, 1 with warnings or errors, or if something
could not be examined. Of several nodes the worst counts.`, doctor.LimitOnNodes, doctor.LateAfter),
		Example: `  tunefit doctor
  tunefit doctor --launch "srun -N 4"
  tunefit doctor --machine --launch "srun -N 4"
  tunefit doctor --launch "mpirun -np 4 --host node1,node2,node3,node4 -x NCCL_TUNER_PLUGIN"
  tunefit doctor --library /opt/nccl/lib/libnccl.so.2`,
		Args: cli.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Nodes < 1 {
				return cli.Usagef("--nodes %d: a job has at least 1", o.Nodes)
			}
			if path, err := own.Find(); err == nil {
				o.Library = path
			}
			var findings []doctor.Finding
			var verdict string
			switch o.Limit = doctor.Limit; {
			case launcher != "":
				findings, verdict, err = examineNodes(cmd, launcher, own, o)
			case answer:
				o.Limit = doctor.LimitOnNodes
				// Exit code 0 in any case: launchers end all nodes when one fails.
				return doctor.WriteAnswer(cmd.OutOrStdout(), doctor.Examine(o))
			default:
				findings = doctor.Examine(o)
			}
			switch {
			case err != nil:
				return err
			case asJSON:
				err = cli.WriteJSON(cmd.OutOrStdout(), findings)
			default:
				err = doctor.Write(cmd.OutOrStdout(), findings)
				fmt.Fprint(cmd.OutOrStdout(), verdict)
			}
			return cli.FailIf(doctor.Failed(findings), err)
		},
	}
	own.Register(cmd, "of this tunefit, to compare with")
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON, one object per finding")
	f.BoolVar(&o.Machine, "machine", false,
		"examine the machine only, before there is a policy: not the tuner's library, files and rendezvous")
	f.IntVar(&o.Nodes, "nodes", 1, "nodes that the job has")
	f.StringVar(&o.NCCL, "library", "", "libnccl.so.2 that the job uses (default those found)")
	f.StringVar(&launcher, "launch", "", `examine nodes by this launcher, as "srun -N 4"`)
	f.BoolVar(&answer, "answer", false, "print for the tunefit that started this one on several nodes")
	_ = f.MarkHidden("answer")
	return cmd
}

// examineNodes examines several nodes, each by a tunefit of its own. The verdict is a line about all of them.
func examineNodes(cmd *cobra.Command, launcher string, own cli.LibraryFlag, o doctor.Options) (
	findings []doctor.Finding, verdict string, err error) {
	nodes := doctor.NodesOf(launcher)
	if cmd.Flags().Changed("nodes") {
		nodes = o.Nodes
	}
	if nodes == 0 {
		return nil, "", cli.Usagef("--launch %q does not say how many nodes there are (needed: --nodes N, or a "+
			"launcher with -N or -np)", launcher)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	command := []string{self, "doctor", "--answer", "--nodes", strconv.Itoa(nodes)}
	if o.Machine {
		command = append(command, "--machine")
	}
	for name, value := range map[string]string{"--plugin": own.Path, "--library": o.NCCL} {
		if value != "" {
			command = append(command, name+"="+value)
		}
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	line := cli.NewProgress(cmd.ErrOrStderr())
	answers, err := doctor.AskNodes(ctx, launcher, command, line.Around(cmd.ErrOrStderr()), func(n int) {
		line.Show(cli.Step{Done: n, Of: nodes, Unit: "nodes have answered"})
	}, doctor.LateAfter)
	line.Clear()
	if err != nil {
		return nil, "", err
	}
	if ctx.Err() != nil {
		return nil, "", cli.Interrupted(ctx,
			fmt.Errorf("stopped after %s", wording.Plural(answers.Count(), "answer")))
	}
	findings, verdict = answers.Across(nodes)
	return findings, verdict + "\n", nil
}
