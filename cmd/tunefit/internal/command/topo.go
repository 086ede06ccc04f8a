package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
)

func topoCommand(env ncclchoice.Env) *cobra.Command {
	var asJSON, dump bool
	cmd := &cobra.Command{
		Use:   "topo [SYSTEM.xml]",
		Short: "Show a machine as NCCL sees it",
		Long: `Show a machine as NCCL 2.30.7 sees it:
  - the paths between GPUs and from GPUs to NICs, with type and bandwidth in GB/s
  - the NICs
  - the numbers that rules may use

Without a file, it looks for the topology as the library does: NCCL_TUNER_TOPO_FILE,
NCCL_TOPO_FILE, NCCL's file for virtual machines, then the machine itself. Variables
that change paths, such as NCCL_P2P_LEVEL, count as they do in NCCL.`,
		Example: `  tunefit topo
  tunefit topo configs/topo/dgx-h100.xml
  tunefit topo explain gpu0 mlx5_2 --topo configs/topo/dgx-h100.xml`,
		Args: cli.Args(0, 1, "a topology file, or none for this machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && dump {
				return cli.Usagef("--json and --dump exclude each other")
			}
			m, err := openMachine(env, args, cmd.ErrOrStderr())
			if errors.Is(err, fs.ErrNotExist) && len(args) > 0 &&
				suggest.Nearest(args[0], cli.CommandNames(cmd)) != "" {
				return cli.Usagef("%w (%sor name a file)", err, suggest.DidYouMean(args[0], cli.CommandNames(cmd)))
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if dump {
				return m.doc.Write(out)
			}
			o, err := m.overview()
			if err != nil {
				return err
			}
			if asJSON {
				return cli.WriteJSON(out, o)
			}
			return o.write(out)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&dump, "dump", false, "print the topology as NCCL's XML")
	cmd.AddCommand(topoExplainCommand(env), topoPathsCommand(env), topoLinksCommand(env), topoGraphsCommand(env),
		topoTuningCommand(env))
	return cmd
}

// reportCommand completes a command that prints a report on a topology as text or, with --json, as JSON.
func reportCommand[R any](env ncclchoice.Env, cmd *cobra.Command, asJSON string,
	report func(*topo.Document, topo.Settings) (R, error), write func(io.Writer, R) error) *cobra.Command {
	program := cmd.Flags().Bool("json", false, asJSON)
	cmd.Args = cli.Args(0, 1, "a topology file, or none for this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		doc, _, err := document(env, args)
		if err != nil {
			return err
		}
		r, err := report(doc, topo.SettingsFromEnv(os.Getenv))
		switch {
		case err != nil:
			return err
		case *program:
			return cli.WriteJSON(cmd.OutOrStdout(), r)
		}
		return write(cmd.OutOrStdout(), r)
	}
	return cmd
}

// topoMachine is a topology with its paths, as a communicator of all its GPUs gets them.
type topoMachine struct {
	doc    *topo.Document
	source detect.Source
	sys    *topo.System
}

// machineRoot is where the machine's files are.
const machineRoot = "/"

// document reads the file named, or finds the machine's topology.
func document(env ncclchoice.Env, args []string) (*topo.Document, detect.Source, error) {
	if len(args) > 0 {
		doc, err := env.ReadTopology(args[0])
		return doc, detect.Source{File: args[0]}, err
	}
	doc, source, err := detect.Load(os.Getenv, machineRoot, detect.NVMLLibrary{})
	if errors.Is(err, detect.ErrNoGPU) {
		err = fmt.Errorf("%w, or name it on the command line; configs/topo has some", err)
	}
	return doc, source, err
}

func openMachine(env ncclchoice.Env, args []string, notes io.Writer) (*topoMachine, error) {
	doc, source, err := document(env, args)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		fmt.Fprintf(notes, "note: topology %s\n", source)
	}
	sys, err := withPaths(doc, topo.SettingsFromEnv(os.Getenv))
	return &topoMachine{doc, source, sys}, err
}

func withPaths(doc *topo.Document, set topo.Settings) (*topo.System, error) {
	sys, err := topo.Build(doc, set)
	if err != nil {
		return nil, err
	}
	if err := sys.ComputePaths(); err != nil {
		return nil, fmt.Errorf("%s: %w", doc.File, err)
	}
	return sys, nil
}
