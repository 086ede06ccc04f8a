package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// grid is a real cluster, known from sweeps of it.
type grid struct {
	coll      nccl.Coll
	files     []string
	curves    map[nccl.Config]*curve
	fallback  *curve // NCCL's choices
	variables channels.Variables
	limits    [nccl.NumAlgos]int // channels that were measured, at most
}

// curve is times by size.
type curve struct {
	sizes   []uint64 // rising
	micros  map[uint64][]float64
	choices map[uint64]nccl.Config // NCCL's, as far as the sweeps tell
}

// Measured is the cluster that the files of sweeps were measured on. They need NCCL's choice and forced configurations.
func Measured(files []string, coll nccl.Coll, comm nccl.Comm, variables channels.Variables) (Cluster, error) {
	g := &grid{coll: coll, files: files, curves: map[nccl.Config]*curve{}, variables: variables}
	has := map[string]bool{}
	for _, name := range files {
		r, err := testlib.Measurements(name)
		if err != nil {
			return nil, err
		}
		for _, m := range r.Samples {
			has[shape(m.Coll, m.Comm)] = true
			if m.Coll == coll && m.Comm == comm {
				g.add(m)
			}
		}
	}
	if g.fallback == nil || len(g.curves) == 0 {
		there := strings.Join(slices.Sorted(maps.Keys(has)), ", ")
		return nil, fmt.Errorf("no default and forced times of %s in %s (there are: %s)", shape(coll, comm), g, there)
	}
	return g, nil
}

func shape(coll nccl.Coll, comm nccl.Comm) string {
	return fmt.Sprintf("%s %dx%d", coll, comm.Nodes, comm.Ranks/max(comm.Nodes, 1))
}

func (g *grid) add(m bench.Sample) {
	c := m.Config
	known := c.Known() && c.Channels > 0
	var into *curve
	switch {
	case m.Selection == bench.SelectionDefault:
		if g.fallback == nil {
			g.fallback = &curve{choices: map[uint64]nccl.Config{}}
		}
		if into = g.fallback; known {
			into.choices[m.Bytes] = c
		}
	case !known:
		return
	default:
		if g.curves[c] == nil {
			g.curves[c] = &curve{}
		}
		into = g.curves[c]
		g.limits[c.Algo] = max(g.limits[c.Algo], c.Channels)
	}
	into.add(m.Bytes, m.Micros)
}

func (c *curve) add(bytes uint64, micros float64) {
	if c.micros == nil {
		c.micros = map[uint64][]float64{}
	}
	if c.micros[bytes] == nil {
		at, _ := slices.BinarySearch(c.sizes, bytes)
		c.sizes = slices.Insert(c.sizes, at, bytes)
	}
	c.micros[bytes] = append(c.micros[bytes], micros)
}

// at interpolates the medians between the sizes that were measured, both as logarithms. Below them it keeps the time of
// the smallest, above them the bandwidth of the largest.
func (c *curve) at(bytes uint64) float64 {
	median := func(size uint64) float64 { return stats.Median(c.micros[size]) }
	i, found := slices.BinarySearch(c.sizes, bytes)
	switch last := c.sizes[len(c.sizes)-1]; {
	case found:
		return median(bytes)
	case i == 0:
		return median(c.sizes[0])
	case i == len(c.sizes):
		return median(last) * float64(bytes) / float64(last)
	}
	low, high := c.sizes[i-1], c.sizes[i]
	return between(float64(bytes), float64(low), float64(high), median(low), median(high))
}

// between interpolates the times at low and high, all as logarithms.
func between(at, low, high, lowMicros, highMicros float64) float64 {
	part := math.Log(at/low) / math.Log(high/low)
	return math.Exp((1-part)*math.Log(lowMicros) + part*math.Log(highMicros))
}

func (g *grid) String() string { return strings.Join(g.files, ", ") }

// own is NCCL's choice: the one that the sweep names at the nearest size. Where it names none, it is the configuration
// whose time is nearest.
func (g *grid) own(bytes uint64) nccl.Config {
	far := func(x, y float64) float64 { return math.Abs(math.Log(x / y)) }
	if len(g.fallback.choices) > 0 {
		nearest := slices.MinFunc(slices.Sorted(maps.Keys(g.fallback.choices)), func(a, b uint64) int {
			return cmp.Compare(far(float64(a), float64(bytes)), far(float64(b), float64(bytes)))
		})
		return g.fallback.choices[nearest]
	}
	us := g.fallback.at(bytes)
	return slices.MinFunc(slices.SortedFunc(maps.Keys(g.curves), nccl.Config.Compare), func(a, b nccl.Config) int {
		return cmp.Compare(far(g.curves[a].at(bytes), us), far(g.curves[b].at(bytes), us))
	})
}

// Table gives each measured cell its time with the most channels, and makes NCCL's choice the cheapest.
func (g *grid) Table(bytes uint64) (table nccl.CostTable) {
	own, least := g.own(bytes), math.Inf(1)
	for a, p := range nccl.Cells {
		table[a][p] = nccl.Unavailable
	}
	// The most channels of a cell come last.
	for _, c := range slices.SortedFunc(maps.Keys(g.curves), nccl.Config.Compare) {
		if g.allows(c) {
			us := g.curves[c].at(bytes)
			table[c.Algo][c.Proto], least = float32(us), min(least, us)
		}
	}
	if g.allows(own) {
		table[own.Algo][own.Proto] = float32(min(least*.99, g.fallback.at(bytes)))
	}
	return table
}

// allows reports whether NCCL_ALGO and NCCL_PROTO leave a configuration.
func (g *grid) allows(c nccl.Config) bool {
	algos, protos := g.variables.Algos[g.coll], g.variables.Protos[g.coll]
	return (!algos.Set || algos.Left>>c.Algo&1 != 0) && (!protos.Set || protos.Left>>c.Proto&1 != 0)
}

func (g *grid) Choose(table nccl.CostTable, bytes uint64) (c nccl.Config) {
	if c.Cell, _ = table.Choose(nccl.Reference); !c.Known() {
		return c
	}
	c.Channels = g.Channels(c.Algo)
	if own := g.own(bytes); own.Cell == c.Cell {
		least, most := g.bounds()
		c.Channels = min(max(own.Channels, least), most, c.Channels)
	}
	return c
}

// bounds are what the variables leave of the numbers of channels.
func (g *grid) bounds() (least, most int) {
	v := g.variables
	least, most = max(v.MinChannels, v.MinCTAs, 1), nccl.MaxChannels
	for _, n := range []int{v.MaxChannels, v.MaxCTAs} {
		if n > 0 {
			most = min(most, n)
		}
	}
	return least, max(least, most)
}

// isFree reports whether no variable restricts NCCL's choice.
func (g *grid) isFree() bool {
	least, most := g.bounds()
	return !g.variables.Algos[g.coll].Set && !g.variables.Protos[g.coll].Set && least == 1 && most == nccl.MaxChannels
}

func (g *grid) Channels(a nccl.Algo) int {
	_, most := g.bounds()
	return min(most, g.limits[a])
}

// Micros interpolates between numbers of channels in the same way as between sizes.
func (g *grid) Micros(c nccl.Config, own bool, bytes uint64) (float64, bool) {
	if own && g.isFree() {
		return g.fallback.at(bytes), true
	}
	var below, above nccl.Config // nearest of the same cell
	for x := range g.curves {
		if x.Cell != c.Cell {
			continue
		}
		if x.Channels <= c.Channels && x.Channels > below.Channels {
			below = x
		}
		if x.Channels >= c.Channels && (above.Channels == 0 || x.Channels < above.Channels) {
			above = x
		}
	}
	switch {
	case below.Channels == 0 && above.Channels == 0:
		return 0, false
	case below.Channels == 0:
		below = above
	case above.Channels == 0:
		above = below
	}
	low, high := g.curves[below].at(bytes), g.curves[above].at(bytes)
	if below == above {
		return low, true
	}
	return between(float64(c.Channels), float64(below.Channels), float64(above.Channels), low, high), true
}

// Busy is the number that was asked for. A sweep does not say how many of them NCCL used.
func (g *grid) Busy(c nccl.Config, _ uint64) int { return c.Channels }
