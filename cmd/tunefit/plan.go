package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/grid"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

type planFlags struct {
	grid     grid.Flags
	algos    []string
	protos   []string
	channels []int
	skip     []string
	launch   string
	asJSON   bool
}

func planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan [SWEEP...]",
		Short: "Say what to measure next, and when to stop",
		Long: `Say what to measure next, and when to stop: the runs of nccl-tests, each of one
configuration, that are worth their time after what was measured so far. Run what
is printed, import the logs, and plan again with the new sweep; the first time
there is none.

The default comes first, then all algorithms and protocols with most channels and,
at the sizes where that may be faster, with fewest. In between are measured those
that may be faster than all so far, each only at the sizes where it may. It is over
when nothing left promises enough for its time, and what could be missed is named.
That takes a fifth to two thirds of the time that measuring everything takes.

Printed is a shell script; all but the commands is in comments. Commands write
logs whose names tell tunefit import what ran.`,
		Example: `  tunefit plan --coll allreduce --comm 1x8 --sizes 4K-1G > next.sh
  tunefit plan sweeps/later.csv > next.sh`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.grid.Colls, "coll", nil, "collective (default: the sweep's, if it has one only)")
	flags.StringSliceVar(&f.grid.Shapes, "comm", nil, "communicator as NODESxRANKS_PER_NODE: 2x8 (default: the sweep's, if it has one only)")
	flags.StringVar(&f.grid.Sizes, "sizes", "1K-1G", "sizes in bytes: a list as 64K,1M, or a range as 1K-1G, at every doubling (default: those of the default once it is measured)")
	flags.StringSliceVar(&f.algos, "algos", []string{"ring", "tree", "nvls", "nvls_tree"}, "algorithms to try; those that the collective does not have are left out")
	flags.StringSliceVar(&f.protos, "protos", []string{"ll", "ll128", "simple"}, "protocols to try; those that an algorithm does not have are left out")
	flags.IntSliceVar(&f.channels, "channels", []int{1, 2, 4, 8, 16, 24, 32}, "channel counts to try")
	flags.StringSliceVar(&f.skip, "skip", nil, "what failed to run, as nvls/simple for all channels or tree/ll/32")
	flags.StringVar(&f.launch, "launch", "", "what starts the ranks (default: nothing on one node, on several mpirun)")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command, files []string) error {
	space, err := f.candidates()
	if err != nil {
		return err
	}
	set := &fit.Set{}
	if len(files) > 0 {
		if set, _, _, err = readSweeps(cmd, files, true); err != nil {
			return err
		}
		if set.Used == 0 {
			return errors.New("not one usable measurement")
		}
	}
	group, err := f.subject(set, &space)
	if err != nil {
		return err
	}
	asked, _, err := f.grid.ParseSizes()
	if err != nil {
		return err
	}
	space.Sizes = plannedSizes(group, asked, cmd.Flags().Changed("sizes"))
	if len(space.Sizes) == 0 || space.Sizes[0] == 0 {
		return cli.Usagef("--sizes %s: the default was not measured at any of them (allowed: sizes of the sweep, above 0)", f.grid.Sizes)
	}
	if err := f.families(&space); err != nil {
		return err
	}
	p := f.plan(space, group)
	if f.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), p)
	}
	return p.write(cmd.OutOrStdout())
}

// candidates reads the flags that need no sweep.
func (f *planFlags) candidates() (space fit.Space, err error) {
	space.Channels = sortedOnce(f.channels)
	for _, c := range space.Channels {
		if c < 1 || c > nccl.MaxChannels {
			return space, cli.Usagef("--channels %d (allowed: 1 to 64)", c)
		}
	}
	if len(space.Channels) == 0 {
		return space, cli.Usagef("--channels: none given (allowed: 1 to 64)")
	}
	for _, text := range f.skip {
		parts := strings.Split(text, "/")
		if len(parts) < 2 || len(parts) > 3 {
			return space, cli.Usagef("--skip %q: not ALGORITHM/PROTOCOL or ALGORITHM/PROTOCOL/CHANNELS", text)
		}
		family, err := parseFamily(parts[0], parts[1])
		if err != nil {
			return space, cli.Usagef("--skip %q: %w", text, err)
		}
		counts := append([]int{0}, space.Channels...)
		if len(parts) == 3 {
			n, err := strconv.Atoi(parts[2])
			if err != nil || n < 1 || n > nccl.MaxChannels {
				return space, cli.Usagef("--skip %q: channels are %q (allowed: 1 to 64)", text, parts[2])
			}
			counts = []int{n}
		}
		for _, n := range counts {
			space.Failed = append(space.Failed, fit.Config{FamilyKey: family, Channels: n})
		}
	}
	return space, nil
}

func parseFamily(algo, proto string) (f fit.FamilyKey, err error) {
	if f.Algo, err = nccl.Algos.Parse(algo); err != nil {
		return f, err
	}
	f.Proto, err = nccl.Protos.Parse(proto)
	return f, err
}

// subject finds the collective and communicator that are planned, and what was
// measured there; nil: nothing.
func (f *planFlags) subject(set *fit.Set, space *fit.Space) (*fit.Group, error) {
	colls, err := f.grid.ParseColls()
	if err != nil {
		return nil, err
	}
	shapes, err := f.grid.ParseShapes(nil)
	if err != nil {
		return nil, err
	}
	if len(f.grid.Colls) > 1 || len(f.grid.Shapes) > 1 {
		return nil, cli.Usagef("more than one collective or communicator (allowed: one --coll and one --comm at a time)")
	}
	var found []*fit.Group
	var names []string
	for _, g := range set.Groups {
		names = append(names, g.Key.String())
		if (len(f.grid.Colls) == 0 || g.Coll == colls[0]) && (len(f.grid.Shapes) == 0 || grid.Shape{Nodes: g.Nodes, Ranks: g.Ranks} == shapes[0]) {
			found = append(found, g)
		}
	}
	switch given := len(f.grid.Colls) == 1 && len(f.grid.Shapes) == 1; {
	case len(found) == 1:
		space.Key = found[0].Key
		return found[0], nil
	case given:
		space.Key = fit.Key{Coll: colls[0], Nodes: shapes[0].Nodes, Ranks: shapes[0].Ranks}
		return nil, nil
	case len(names) > 0:
		return nil, cli.Usagef("choose one by --coll and --comm (measured: %s)", strings.Join(names, ", "))
	}
	return nil, cli.Usagef("nothing tells what is planned (needed: a sweep, or --coll and --comm)")
}

// plannedSizes are those asked for; once the default is measured, the sizes that
// this really gave, as nccl-tests may round them.
func plannedSizes(g *fit.Group, asked []uint64, bounded bool) []uint64 {
	if g == nil || len(g.Default) == 0 {
		return asked
	}
	var sizes []uint64
	for _, c := range g.Default {
		if !bounded || asked[0] <= c.Bytes && c.Bytes <= asked[len(asked)-1] {
			sizes = append(sizes, c.Bytes)
		}
	}
	return sizes
}

// families pairs algorithms with the protocols that they have.
func (f *planFlags) families(space *fit.Space) error {
	for _, a := range f.algos {
		for _, p := range f.protos {
			family, err := parseFamily(a, p)
			if err != nil {
				return cli.Usagef("%w", err)
			}
			if nccl.Offers(space.Coll, family.Algo, family.Proto) && !slices.Contains(space.Families, family) {
				space.Families = append(space.Families, family)
			}
		}
	}
	if len(space.Families) == 0 {
		return cli.Usagef("NCCL has none of --algos %s with --protos %s for %s", strings.Join(f.algos, ","), strings.Join(f.protos, ","), space.Coll)
	}
	return nil
}
