package main

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
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/draw"
)

func topoCommand(env ncclchoice.Env) *cobra.Command {
	view := topoView{env: env}
	var nodes int
	var asJSON, dot, dump bool
	cmd := &cobra.Command{
		Use:   "topo [SYSTEM.xml]",
		Short: "Show a machine as NCCL sees it",
		Long: `Show a machine as NCCL 2.30.7 sees it:
  - the paths between GPUs and from GPUs to NICs, with type and bandwidth in GB/s
  - the NICs
  - the numbers that rules may use
  - the teams of device-side communication

Without a file, it looks for the topology as the library does: NCCL_TUNER_TOPO_FILE,
NCCL_TOPO_FILE, NCCL's file for virtual machines, then the machine itself. Variables
that change paths, such as NCCL_P2P_LEVEL, count as they do in NCCL.`,
		Example: `  tunefit topo
  tunefit topo configs/topo/dgx-h100.xml
  tunefit topo configs/topo/dgx-h100.xml --dot | dot -Tsvg > dgx-h100.svg
  tunefit topo explain gpu0 mlx5_2 --topo configs/topo/dgx-h100.xml`,
		Args: cli.Args(0, 1, "a topology file, or none for this machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := count(asJSON, dot, dump); n > 1 {
				return cli.Usagef("--json, --dot and --dump exclude each other")
			}
			if nodes < 1 {
				return cli.Usagef("--nodes %d: a communicator has at least 1", nodes)
			}
			m, err := view.open(args, cmd.ErrOrStderr())
			if errors.Is(err, fs.ErrNotExist) && len(args) > 0 && suggest.Nearest(args[0], cli.CommandNames(cmd)) != "" {
				return cli.Usagef("%w (%sor name a file)", err, suggest.DidYouMean(args[0], cli.CommandNames(cmd)))
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case dump:
				return m.doc.Write(out)
			case dot:
				return draw.DOT(out, m.sys)
			}
			o, err := m.overview(nodes)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.WriteJSON(out, o)
			}
			return o.write(out)
		},
	}
	view.register(cmd)
	cmd.Flags().IntVar(&nodes, "nodes", 2, "nodes like this one, for the rail teams")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&dot, "dot", false, "print a graph in DOT, from which Graphviz makes a picture")
	cmd.Flags().BoolVar(&dump, "dump", false, "print the topology as NCCL's XML")
	cmd.AddCommand(topoExplainCommand(env), topoPathsCommand(env), topoLinksCommand(env), topoGraphsCommand(env), topoTuningCommand(env), topoMeshCommand(env.Inputs))
	return cmd
}

func count(flags ...bool) (n int) {
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

// topoView says how NCCL would look at a topology.
type topoView struct {
	env  ncclchoice.Env
	rule string
}

func (v *topoView) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&v.rule, "rule", "", "which of two paths is better: best-type (NCCL 2.30.7 and later), wider (2.8 to 2.30.4) or widest (2.5 to 2.7) (default: as the release has it, best-type)")
}

func (v *topoView) settings() (topo.Settings, error) {
	set := topo.SettingsFromEnv(os.Getenv)
	switch v.rule {
	case "":
	case "best-type":
		set.Rule = topo.RuleBestType
	case "wider":
		set.Rule = topo.RuleWider
	case "widest":
		set.Rule = topo.RuleWidest
	default:
		return set, cli.Usagef("--rule %q: not one of best-type, wider, widest", v.rule)
	}
	return set, nil
}

// reportCommand completes a command that reports on a topology.
func reportCommand(env ncclchoice.Env, cmd *cobra.Command, report func(io.Writer, *topo.Document, topo.Settings) error) *cobra.Command {
	view := topoView{env: env}
	view.register(cmd)
	cmd.Args = cli.Args(0, 1, "a topology file, or none for this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set, err := view.settings()
		if err != nil {
			return err
		}
		doc, _, err := view.document(args)
		if err != nil {
			return err
		}
		return report(cmd.OutOrStdout(), doc, set)
	}
	return cmd
}

// topoMachine is a topology with its paths, as a communicator of all its GPUs gets them.
type topoMachine struct {
	doc    *topo.Document
	source detect.Source
	set    topo.Settings
	sys    *topo.System
}

// machineRoot is where the machine's files are.
const machineRoot = "/"

// document reads the file named, or finds the machine's topology.
func (v *topoView) document(args []string) (*topo.Document, detect.Source, error) {
	if len(args) > 0 {
		doc, err := v.env.ReadTopology(args[0])
		return doc, detect.Source{File: args[0]}, err
	}
	doc, source, err := detect.Load(os.Getenv, machineRoot, detect.NVMLLibrary{})
	if errors.Is(err, detect.ErrNoGPU) {
		err = fmt.Errorf("%w, or name it on the command line; configs/topo has some", err)
	}
	return doc, source, err
}

func (v *topoView) open(args []string, notes io.Writer) (*topoMachine, error) {
	set, err := v.settings()
	if err != nil {
		return nil, err
	}
	m := &topoMachine{set: set}
	if m.doc, m.source, err = v.document(args); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		fmt.Fprintf(notes, "note: topology %s\n", m.source)
	}
	if m.sys, err = topo.Build(m.doc, ncclchoice.BuildOptions()); err != nil {
		return nil, err
	}
	if err := m.sys.ComputePaths(set, topo.WholeComm(m.sys)); err != nil {
		return nil, fmt.Errorf("%s: %w", m.doc.File, err)
	}
	return m, nil
}
