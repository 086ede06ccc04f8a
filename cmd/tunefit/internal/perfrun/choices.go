// Package perfrun turns what is worth measuring into starts of nccl-tests: which configurations may be tried at all, in
// which program, with which options and environment, and with which policy of our library.
package perfrun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// Choices are the flags that say what may be measured.
type Choices struct {
	Grid     cli.CallFlags
	Algos    []string
	Protos   []string
	Channels []int
	Skip     []string
	Topology ask.Flags

	isNamed func(flag string) bool
	machine *ask.Estimates // nil: not known
	failed  []nccl.Config
}

// Register adds the flags to a command.
func (c *Choices) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	c.isNamed = flags.Changed
	flags.StringSliceVar(&c.Grid.Colls, "coll", nil, "collectives, as allreduce,allgather")
	flags.StringSliceVar(&c.Grid.Comms, "comm", nil, "communicators as NODESxRANKS_PER_NODE, as 1x8,2x8")
	flags.StringVar(&c.Grid.Sizes, "sizes", "1K-1G",
		"sizes in bytes: a list as 64K,1M, or a range as 1K-1G, at every doubling; not given: those at which the "+
			"default was measured, once it was")
	flags.StringSliceVar(&c.Algos, "algos", []string{"ring", "tree", "nvls", "nvls_tree", "pat"},
		"algorithms to try; those that the collective does not have are left out, and pat where no log and no --topo "+
			"says that the release has it")
	flags.StringSliceVar(&c.Protos, "protos", []string{"ll", "ll128", "simple"},
		"protocols to try; those that an algorithm does not have are left out")
	flags.IntSliceVar(&c.Channels, "channels", []int{1, 2, 4, 8, 16, 24, 32}, "channel counts to try")
	flags.StringSliceVar(&c.Skip, "skip", nil, "what failed to run, as nvls/simple for all channels or tree/ll/32")
	flags.StringVar(&c.Topology.Topo, "topo", "",
		"topology file of the nodes, NCCL's XML: algorithms, protocols and channels that they do not have are not "+
			"planned")
	flags.StringVar(&c.Topology.NCCL, "nccl", "", "with --topo: "+ask.InstalledUsage)
}

// Check reads the flags and what they name.
func (c *Choices) Check() error {
	c.Channels = slices.Compact(slices.Sorted(slices.Values(c.Channels)))
	for _, n := range c.Channels {
		if n < 1 || n > nccl.MaxChannels {
			return cli.Usagef("--channels %d (allowed: 1 to 64)", n)
		}
	}
	if len(c.Channels) == 0 {
		return cli.Usagef("--channels: none given (allowed: 1 to 64)")
	}
	for _, text := range c.Skip {
		if err := c.skip(text); err != nil {
			return err
		}
	}
	if c.Topology.Topo == "" {
		if c.Topology.NCCL != "" {
			return cli.Usagef("--nccl needs --topo, the machine on which that release chooses")
		}
		return nil
	}
	var err error
	c.machine, err = c.Topology.Read()
	return err
}

func (c *Choices) skip(text string) error {
	config, err := nccl.ParseConfig(text)
	if err != nil {
		return cli.Usagef("--skip %w", err)
	}
	counts := []int{config.Channels}
	if config.Channels == 0 {
		counts = append(counts, c.Channels...)
	}
	for _, n := range counts {
		config.Channels = n
		c.failed = append(c.failed, config)
	}
	return nil
}

// Named returns the collectives on the communicators that the flags name; if they do not name both, those measured that
// they allow.
func (c *Choices) Named(measured []*fit.Group) (keys []fit.Key, err error) {
	colls, err := c.Grid.ParseColls()
	if err != nil {
		return nil, err
	}
	comms, err := c.Grid.ParseComms(nil)
	if err != nil {
		return nil, err
	}
	if len(c.Grid.Colls) == 0 || len(c.Grid.Comms) == 0 {
		for _, g := range measured {
			if slices.Contains(colls, g.Coll) && (len(c.Grid.Comms) == 0 || slices.Contains(comms, g.Comm)) {
				keys = append(keys, g.Key)
			}
		}
		return keys, nil
	}
	for _, c := range colls {
		for _, comm := range comms {
			keys = append(keys, fit.Key{Coll: c, Comm: comm})
		}
	}
	return keys, nil
}

// Space returns what may be measured of a collective on a communicator. failed are configurations that did not run, and
// with names the releases of earlier measurements as fit.Set does; "": not known.
func (c *Choices) Space(key fit.Key, failed []nccl.Config, with string) (fit.Space, error) {
	oldest, _, _ := nccl.MeasuredWith(with)
	space := fit.Space{Key: key, Channels: c.Channels, Failed: slices.Concat(c.failed, failed)}
	for _, a := range c.Algos {
		for _, p := range c.Protos {
			cell, err := nccl.ParseCell(a, p)
			if err != nil {
				return space, cli.Usagef("%w", err)
			}
			if cell.Algo == nccl.AlgoPAT && !c.isNamed("algos") && c.machine == nil && !oldest.OffersPAT(key.Comm) {
				continue
			}
			if nccl.Offers(key.Coll, cell) && !slices.Contains(space.Families, cell) {
				space.Families = append(space.Families, cell)
			}
		}
	}
	if len(space.Families) == 0 {
		return space, cli.Usagef("NCCL has none of --algos %s with --protos %s for %s", strings.Join(c.Algos, ","),
			strings.Join(c.Protos, ","), key.Coll)
	}
	if c.machine == nil {
		return space, nil
	}
	return space, c.within(&space)
}

// within leaves out configurations that the machine does not have.
func (c *Choices) within(space *fit.Space) error {
	t, err := c.machine.Of(space.Comm)
	if err != nil {
		return err
	}
	if t.Comm != space.Comm {
		return cli.Usagef("--comm %s: the nodes of --topo make communicators of %d ranks a node", space.Comm,
			t.Ranks/max(1, t.Nodes))
	}
	const anySize = 1 << 20 // what there is does not depend on it
	table := t.Table(space.Coll, anySize, 1)
	space.LeaveOut(func(f nccl.Cell) bool { return table[f.Algo][f.Proto] < 0 })
	if len(space.Families) == 0 {
		return cli.Usagef("the nodes of --topo have none of these algorithms and protocols for %s on %s",
			space.Coll, space.Comm)
	}
	space.Limits = map[nccl.Algo]int{}
	for _, f := range space.Families {
		space.Limits[f.Algo] = t.Channels(f.Algo)
	}
	return nil
}

// Sizes returns the sizes asked for, as nccl-tests trims them, and those between them at which the default was
// measured.
// If no flag names sizes, once the default is measured these are the sizes that were really run.
func Sizes(key fit.Key, g *fit.Group, asked []uint64, named bool) (sizes []uint64) {
	unit := TrimUnit(key)
	isMeasured := g != nil && len(g.Default) > 0
	if !isMeasured || named {
		for _, b := range asked {
			if b >= unit {
				b -= b % unit
			}
			sizes = append(sizes, b)
		}
	}
	if isMeasured {
		for _, c := range g.Default {
			if !named || asked[0]-asked[0]%unit <= c.Bytes && c.Bytes <= asked[len(asked)-1] {
				sizes = append(sizes, c.Bytes)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// mostUnmet is how many configurations a line names at most.
const mostUnmet = 8

// Unmet returns messages about what is not available or did not run as asked for. It is not planned again.
func Unmet(space fit.Space, g *fit.Group) (lines []string) {
	if len(space.NotOffered) > 0 {
		var names []string
		for _, f := range space.NotOffered {
			names = append(names, f.String())
		}
		lines = append(lines, "not available on this machine, and not planned: "+strings.Join(names, ", "))
	}
	families := map[int][]string{} // by channels that NCCL does not take
	var counts []int
	var others []string
	for _, u := range space.Unmet(g) {
		if n := u.Config.Channels; u.OwnChannels {
			if families[n] == nil {
				counts = append(counts, n)
			}
			families[n] = append(families[n], u.Config.Cell.String())
			continue
		}
		others = append(others,
			fmt.Sprintf("%s at %s", u.Config, cli.SizeRange(u.Sizes[0], u.Sizes[len(u.Sizes)-1])))
	}
	for _, n := range counts {
		lines = append(lines, fmt.Sprintf("NCCL does not use %s for %s: it keeps its own number there",
			wording.Plural(n, "channel"), strings.Join(families[n], ", ")))
	}
	if len(others) > 0 {
		lines = append(lines, "not measured as planned, and not planned again: "+cli.Few(others, mostUnmet, ", "))
	}
	return lines
}
