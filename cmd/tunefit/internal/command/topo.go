package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

func topoCommand(env ncclchoice.Env) *cobra.Command {
	var dump bool
	cmd := topoView(&cobra.Command{
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
	}, "print JSON", func(cmd *cobra.Command, args []string) (*topoOverview, error) {
		if dump && cmd.Flag("json").Value.String() == "true" {
			return nil, cli.Usagef("--json and --dump exclude each other")
		}
		m, err := openMachine(env, args, cmd.ErrOrStderr())
		if errors.Is(err, fs.ErrNotExist) && len(args) > 0 &&
			wording.Nearest(args[0], cli.CommandNames(cmd)) != "" {
			return nil, cli.Usagef("%w (%sor name a file)", err, wording.DidYouMean(args[0], cli.CommandNames(cmd)))
		}
		if err != nil || dump {
			return &topoOverview{machine: m}, err
		}
		return m.overview()
	}, func(w io.Writer, o *topoOverview) error {
		if dump {
			return o.machine.doc.Write(w)
		}
		return o.write(w)
	})
	cmd.Flags().BoolVar(&dump, "dump", false, "print the topology as NCCL's XML")
	cmd.AddCommand(topoExplainCommand(env), topoPathsCommand(env), topoLinksCommand(env), topoGraphsCommand(env),
		topoTuningCommand(env))
	return cmd
}

func topoPathsCommand(env ncclchoice.Env) *cobra.Command {
	var stage string
	cmd := topoView(&cobra.Command{
		Use:   "paths [SYSTEM.xml]",
		Short: "Print all nodes and paths, before or after NCCL's diversions",
		Long: `Print all nodes of the graph and the best path between each two, at one of these stages:

  raw     the best paths, before any diversion
  nocomm  diverted through CPUs and GPUs, without a communicator
  single  as when a communicator of all GPUs is created: computed, trimmed, computed again`,
		Example: `  tunefit topo paths configs/topo/dgx-h100.xml --stage single --json`,
	}, "print JSON, in NCCL's order of nodes and links",
		func(_ *cobra.Command, args []string) (*topo.PathsReport, error) {
			doc, _, err := document(env, args)
			if err != nil {
				return nil, err
			}
			if !slices.Contains([]topo.Stage{topo.StageRaw, topo.StageNoComm, topo.StageSingle}, topo.Stage(stage)) {
				return nil, cli.Usagef("--stage %q: not one of raw, nocomm, single", stage)
			}
			return topo.Paths(doc, topo.SettingsFromEnv(os.Getenv), topo.Stage(stage))
		}, writePaths)
	cmd.Flags().StringVar(&stage, "stage", string(topo.StageSingle), "raw, nocomm or single")
	return cmd
}

func topoLinksCommand(env ncclchoice.Env) *cobra.Command {
	return topoView(&cobra.Command{
		Use:   "links [SYSTEM.xml]",
		Short: "Print what each pair uses: P2P, shared memory, network, GPUDirect RDMA",
		Long: `Print for each pair of GPUs whether NCCL uses peer-to-peer, shared memory or the
network. Print for each GPU and NIC whether it uses GPUDirect RDMA. NCCL_P2P_LEVEL,
NCCL_P2P_DISABLE, NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ, NCCL_NET_GDR_C2C,
NCCL_PXN_DISABLE, NCCL_PXN_C2C, NCCL_NVB_DISABLE, NCCL_SHM_DISABLE and
NCCL_NET_DISABLE_INTRA count as in NCCL.`,
		Example: `  tunefit topo links configs/topo/dgx-h100.xml
  NCCL_NET_GDR_LEVEL=PIX tunefit topo links configs/topo/dgx-h100.xml --json`,
	}, "print JSON: a list of pairs", func(_ *cobra.Command, args []string) ([]link, error) {
		m, err := openMachine(env, args, io.Discard)
		if err != nil {
			return nil, err
		}
		return m.links()
	}, writeLinks)
}

func topoGraphsCommand(env ncclchoice.Env) *cobra.Command {
	return topoView(&cobra.Command{
		Use:   "graphs [SYSTEM.xml]",
		Short: "Print the channels that NCCL would find",
		Long: `Print the channels that NCCL's search would find for rings, trees, NVLS and CollNet, on
this system alone and as one of several alike.`,
		Example: `  tunefit topo graphs configs/topo/dgx-h100.xml`,
	}, "print JSON, with the order of GPUs and NICs of each channel",
		func(_ *cobra.Command, args []string) (map[string]*channels.Found, error) {
			doc, _, err := document(env, args)
			if err != nil {
				return nil, err
			}
			return findGraphs(doc)
		}, writeGraphs)
}

func topoTuningCommand(env ncclchoice.Env) *cobra.Command {
	var nodes []int
	var collNet bool
	var named string
	cmd := topoView(&cobra.Command{
		Use:   "tuning [SYSTEM.xml]",
		Short: "Print NCCL's estimates, and what it would choose",
		Long: `Print the estimates of a release of NCCL for communicators over hosts like this one:
latency and bandwidth of each algorithm and protocol, and the sizes that NCCL chooses
them for. NCCL_* variables count as they do in NCCL. No measurement is involved.

tunefit show --tuning reads the JSON.`,
		Example: `  tunefit topo tuning configs/topo/dgx-h100.xml --nodes 1,4
  tunefit topo tuning configs/topo/dgx-h100.xml --json > dgx-h100.json`,
	}, "print JSON", func(cmd *cobra.Command, args []string) (*tuning.Set, error) {
		version, notes, err := env.WhichNCCL(named)
		if err != nil {
			return nil, err
		}
		cli.Notes(cmd.ErrOrStderr(), append(ncclchoice.UncountedVariables(), notes...)...)
		if err := checkHosts(nodes); err != nil {
			return nil, err
		}
		doc, _, err := document(env, args)
		if err != nil {
			return nil, err
		}
		opt, err := ncclchoice.TuneOptions(version)
		if err != nil {
			return nil, err
		}
		opt.CollNet = collNet
		comms, err := channels.Tune(doc, opt, nodes...)
		set := &tuning.Set{NCCL: opt.NCCL}
		for _, c := range comms {
			set.Tunings = append(set.Tunings, c.Tuning)
		}
		return set, err
	}, writeTuning)
	cmd.Flags().StringVar(&named, "nccl", "",
		"release of NCCL, as 2.28.9 (default: the one that is installed, else "+nccl.Newest.String()+")")
	cmd.Flags().IntSliceVar(&nodes, "nodes", []int{1, 2, 4, 8, 16, 64}, "numbers of hosts")
	cmd.Flags().BoolVar(&collNet, "collnet", false, "the network reduces (SHARP), and NCCL is told to use that")
	return cmd
}

func checkHosts(nodes []int) error {
	const most = 1 << 20
	for _, n := range nodes {
		if n < 1 || n > most {
			return cli.Usagef("--nodes %d: a communicator has 1 to %d hosts", n, most)
		}
	}
	if len(nodes) == 0 {
		return cli.Usagef("--nodes is empty")
	}
	return nil
}

// topoView completes a command that prints a report on a topology as tables or, with --json, as it is.
func topoView[R any](cmd *cobra.Command, asJSON string, report func(*cobra.Command, []string) (R, error),
	tables func(io.Writer, R) error) *cobra.Command {
	program := cmd.Flags().Bool("json", false, asJSON)
	cmd.Args = cli.Args(0, 1, "a topology file, or none for this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := report(cmd, args)
		switch {
		case err != nil:
			return err
		case *program:
			return cli.WriteJSON(cmd.OutOrStdout(), r)
		}
		return tables(cmd.OutOrStdout(), r)
	}
	return cmd
}

// topoMachine is a topology with its paths, as a communicator of all its GPUs gets them.
type topoMachine struct {
	doc    *topo.Document
	source detect.Source
	*topo.System
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
	sys, err := topo.Build(doc, topo.SettingsFromEnv(os.Getenv))
	if err != nil {
		return nil, err
	}
	if err := sys.ComputePaths(); err != nil {
		return nil, fmt.Errorf("%s: %w", doc.File, err)
	}
	return &topoMachine{doc, source, sys}, nil
}
