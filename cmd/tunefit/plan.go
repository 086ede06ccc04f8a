package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/costs"
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
	machine  costs.Flags
	library  cli.LibraryFlag
	asJSON   bool

	verify      bool
	repetitions int
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

Printed is a shell script; all but the commands is in comments. Each configuration
is measured as a job would run it: by this project's tuner library with a policy of
one row, since a tuner cannot have channels that only NCCL_MIN_NCHANNELS makes.
NCCL finds the library in LD_LIBRARY_PATH, and --plugin names another place. On
several nodes the script has to be in a folder that all of them see.

Logs tell tunefit import what ran, by their names and by what the tuner says in
them. What NCCL does not have here fails once and is not planned again.
With --topo it is not planned at all.

With --verify, the default and the three configurations that are expected to be the
fastest at each size are measured once more, in turns: one start for the default and
one for each of three policies. Fitted together with the sweep, the fastest of these
is chosen at each size, the default among them, and rows say that they are verified.`,
		Example: `  tunefit plan --coll allreduce --comm 1x8 --sizes 4K-1G > next.sh
  tunefit plan --coll allreduce,allgather --comm 1x8,2x8 --topo system.xml > next.sh
  tunefit plan sweeps/later.csv > next.sh
  tunefit plan --verify sweeps/*.csv > verify.sh`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.grid.Colls, "coll", nil, "collectives, as allreduce,allgather (default: those of the sweep)")
	flags.StringSliceVar(&f.grid.Shapes, "comm", nil, "communicators as NODESxRANKS_PER_NODE, as 1x8,2x8 (default: those of the sweep)")
	flags.StringVar(&f.grid.Sizes, "sizes", "1K-1G", "sizes in bytes: a list as 64K,1M, or a range as 1K-1G, at every doubling (default: those of the default once it is measured)")
	flags.StringSliceVar(&f.algos, "algos", []string{"ring", "tree", "nvls", "nvls_tree"}, "algorithms to try; those that the collective does not have are left out")
	flags.StringSliceVar(&f.protos, "protos", []string{"ll", "ll128", "simple"}, "protocols to try; those that an algorithm does not have are left out")
	flags.IntSliceVar(&f.channels, "channels", []int{1, 2, 4, 8, 16, 24, 32}, "channel counts to try")
	flags.StringSliceVar(&f.skip, "skip", nil, "what failed to run, as nvls/simple for all channels or tree/ll/32")
	flags.StringVar(&f.machine.Topo, "topo", "", "topology file of the nodes, NCCL's XML: algorithms, protocols and channels that they do not have are not planned")
	flags.StringVar(&f.machine.NCCL, "nccl", "", "with --topo: release of NCCL, as 2.28.9 (default: the one that is installed, else 2.31.2)")
	f.library.Register(cmd, "that runs load")
	flags.StringVar(&f.launch, "launch", "", "what starts the ranks (default: nothing on one node, on several mpirun)")
	flags.BoolVar(&f.verify, "verify", false, "measure once more what would be deployed: the default and the three best predicted, at each size")
	flags.IntVar(&f.repetitions, "repetitions", 2, "with --verify: how often")
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
		if set.Used == 0 && len(set.Failed) == 0 {
			return errors.New("not one usable measurement")
		}
	}
	asked, _, err := f.grid.ParseSizes()
	if err != nil {
		return err
	}
	keys, err := f.subjects(set)
	if err != nil {
		return err
	}
	var machine *costs.Model
	if f.machine.Topo != "" {
		if machine, err = f.machine.Read(); err != nil {
			return err
		}
	}
	var plans []planJSON
	for _, key := range keys {
		space, group := space, set.Of(key)
		space.Key = key
		space.Failed = append(slices.Clone(space.Failed), set.Failed[key]...)
		space.Sizes = plannedSizes(group, asked, cmd.Flags().Changed("sizes"))
		if f.verify {
			space.Sizes = asked
		}
		if len(space.Sizes) == 0 || space.Sizes[0] == 0 {
			return cli.Usagef("--sizes %s: the default of %s was not measured at any of them (allowed: sizes of the sweep, above 0)", f.grid.Sizes, key)
		}
		if err := f.families(&space); err != nil {
			return err
		}
		if f.verify {
			if err := f.verifiable(&space, group, cmd.Flags().Changed("sizes")); err != nil {
				return err
			}
		}
		if machine != nil {
			if err := within(machine, &space); err != nil {
				return err
			}
		}
		if f.verify {
			plans = append(plans, f.verification(space, group))
		} else {
			plans = append(plans, f.plan(space, group))
		}
	}
	switch {
	case !f.asJSON:
		return f.write(cmd.OutOrStdout(), plans)
	case len(plans) == 1:
		return cli.WriteJSON(cmd.OutOrStdout(), plans[0])
	}
	return cli.WriteJSON(cmd.OutOrStdout(), plans)
}

// within leaves out what a machine does not have.
func within(machine *costs.Model, space *fit.Space) error {
	shape := grid.Shape{Nodes: space.Nodes, Ranks: space.Ranks}
	t, err := machine.Of(shape)
	if err != nil {
		return err
	}
	if t.NNodes != space.Nodes || t.NRanks != space.Ranks {
		return cli.Usagef("--comm %s: the nodes of --topo make communicators of %d ranks a node", shape, t.NRanks/max(1, t.NNodes))
	}
	const anySize = 1 << 20 // what there is does not depend on it
	table := t.Table(space.Coll, anySize, 1)
	space.Families = slices.DeleteFunc(space.Families, func(f fit.FamilyKey) bool { return table[f.Algo][f.Proto] < 0 })
	if len(space.Families) == 0 {
		return cli.Usagef("the nodes of --topo have none of these algorithms and protocols for %s on %s", space.Coll, shape)
	}
	space.Limits = map[nccl.Algo]int{}
	for _, f := range space.Families {
		space.Limits[f.Algo] = t.Channels(f.Algo)
	}
	return nil
}

// candidates reads the flags that need no sweep.
func (f *planFlags) candidates() (space fit.Space, err error) {
	if f.repetitions < 1 || f.repetitions > 100 {
		return space, cli.Usagef("--repetitions %d (allowed: 1 to 100)", f.repetitions)
	}
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

// subjects are the collectives and communicators that are planned: those named, in all combinations if both are
// named, else those measured.
func (f *planFlags) subjects(set *fit.Set) (keys []fit.Key, err error) {
	colls, err := f.grid.ParseColls()
	if err != nil {
		return nil, err
	}
	shapes, err := f.grid.ParseShapes(nil)
	if err != nil {
		return nil, err
	}
	if len(f.grid.Colls) > 0 && len(f.grid.Shapes) > 0 {
		for _, c := range colls {
			for _, s := range shapes {
				keys = append(keys, fit.Key{Coll: c, Nodes: s.Nodes, Ranks: s.Ranks})
			}
		}
		return keys, nil
	}
	var names []string
	for _, g := range set.Groups {
		names = append(names, g.Key.String())
		if (len(f.grid.Colls) == 0 || slices.Contains(colls, g.Coll)) && (len(f.grid.Shapes) == 0 || slices.Contains(shapes, grid.Shape{Nodes: g.Nodes, Ranks: g.Ranks})) {
			keys = append(keys, g.Key)
		}
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case len(names) > 0:
		return nil, cli.Usagef("nothing of that was measured (measured: %s; --coll and --comm together name what was not)", strings.Join(names, ", "))
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
