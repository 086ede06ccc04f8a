package fit

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Row is a line of a policy file: a configuration for a range of sizes on one
// communicator.
type Row struct {
	Key
	Config
	Bytes nccl.Range
	// Verified is the number of sizes within Bytes at which the row won a verification.
	Verified int
}

// RowOptions say how a model becomes rows.
type RowOptions struct {
	// UnknownDefault writes rows also where nobody measured what the library
	// would do by itself, and nothing says that they are better.
	UnknownDefault bool
}

const (
	// switchPrice in ln(us): a row more must save at least so much, summed over
	// octaves. It is raised as long as rows lose less than mostLost on average;
	// half of what may be lost is kept for what the model does not see.
	switchPrice  = 0.015
	priceSteps   = 1.25
	highestPrice = 0.5
	mostLost     = 0.0025
	// tailOctaves is how long the last row must have been the best one before it
	// is taken to stay so for ever larger sizes.
	tailOctaves = 2
)

// Rows writes a model as few rows. Sizes at which the model stays silent have
// none, except in between where a row is not expected to do harm.
func Rows(m *model.Model, opts RowOptions) []Row {
	var rows []Row
	for i := range m.File.Groups {
		g := &m.File.Groups[i]
		of := groupRows(m, g, opts)
		markVerified(of, g.Verified)
		rows = append(rows, of...)
	}
	return rows
}

// option is a configuration that a row can ask for, with its cost at each size
// of the axis: ln(us) above the least, weighed by the size's share of octaves;
// infinite where it must not be asked for.
type option struct {
	config Config
	none   bool // leave the size to the library
	cost   []float64
}

func groupRows(m *model.Model, g *model.Group, opts RowOptions) []Row {
	key, options, speaks := rowOptions(m, g, opts)
	if len(options) < 2 {
		return nil
	}
	path := fewestSwitches(options, g.Axis)
	var rows []Row
	for i := 0; i < len(path); {
		j := i
		for j+1 < len(path) && path[j+1] == path[i] {
			j++
		}
		if o := options[path[i]]; !o.none {
			r := Row{Key: key, Config: o.config, Bytes: nccl.Range{Min: g.Axis[i], Max: g.Axis[j]}}
			if j+1 < len(path) && !options[path[j+1]].none {
				r.Bytes.Max = g.Axis[j+1] - 1
			}
			if j+1 == len(path) && speaks[j] && log2(g.Axis[j])-log2(g.Axis[i]) >= tailOctaves && leads(options, path[i], g.Axis) {
				r.Bytes.Max = nccl.Inf
			}
			rows = append(rows, r)
		}
		i = j + 1
	}
	return rows
}

// leads reports whether an option is within noise of the best over the last
// octaves of the axis.
func leads(options []option, at int, axis []uint64) bool {
	const negligible = 0.01
	last := log2(axis[len(axis)-1])
	for k := range axis {
		if last-log2(axis[k]) <= tailOctaves && options[at].cost[k] > negligible*octaveShare(axis, k) {
			return false
		}
	}
	return true
}

// rowOptions lists what rows can ask for. The first option is to leave a size to
// the library.
func rowOptions(m *model.Model, g *model.Group, opts RowOptions) (key Key, options []option, speaks []bool) {
	coll, err := nccl.Colls.Parse(g.Coll)
	if err != nil {
		panic(err) // m is compiled
	}
	key = Key{coll, g.Nodes, g.Ranks}
	view := m.For(g.Nodes, g.Ranks)
	n := len(g.Axis)
	speaks = make([]bool, n)
	least, leave := make([]float64, n), make([]float64, n)
	everything := nccl.Everything()
	choices := make([]model.Choice, n)
	for k, b := range g.Axis {
		choice, why := view.Choose(coll, b, everything)
		choices[k] = choice
		least[k], leave[k] = choice.LnMicros, choice.DefaultLnMicros
		switch {
		case why == model.Speaks:
			speaks[k] = true
		case why == model.SilentDefault && opts.UnknownDefault:
			speaks[k] = true
			leave[k] = math.Inf(1)
		default:
			// Leaving it costs nothing; a row does where it is slower.
			least[k] = leave[k]
		}
	}
	none := option{none: true, cost: make([]float64, n)}
	for k := range g.Axis {
		if speaks[k] {
			none.cost[k] = (leave[k] - least[k]) * octaveShare(g.Axis, k)
		}
	}
	options = append(options, none)
	for _, f := range g.Families {
		algo, proto := parseFamily(f)
		for _, c := range f.Curves {
			o := option{config: Config{FamilyKey{algo, proto}, c.Channels}, cost: make([]float64, n)}
			if !slices.ContainsFunc(choices, func(p model.Choice) bool { return p.Algo == algo && p.Proto == proto }) {
				continue // never the fastest
			}
			first, last := uint64(c.Measured[0][0]), uint64(c.Measured[len(c.Measured)-1][0])
			for k, b := range g.Axis {
				o.cost[k] = math.Inf(1)
				ln, _, ok := view.Predict(coll, algo, proto, c.Channels, b)
				distrusted := slices.ContainsFunc(f.Distrust, func(d model.Distrust) bool { return d.Min <= b && b <= d.Max })
				switch {
				case !ok || distrusted || b < first || b > last || !nccl.ChannelsCanBeSet(algo, g.Nodes) && c.Channels > 0:
				case speaks[k]:
					o.cost[k] = max(0, ln-least[k]) * octaveShare(g.Axis, k)
				case ln <= leave[k]: // false where the default is not known
					o.cost[k] = 0
				}
			}
			options = append(options, o)
		}
	}
	return key, options, speaks
}

func parseFamily(f model.Family) (nccl.Algo, nccl.Proto) {
	algo, err1 := nccl.Algos.Parse(f.Algo)
	proto, err2 := nccl.Protos.Parse(f.Proto)
	if err1 != nil || err2 != nil {
		panic("fit: a compiled model names an unknown algorithm or protocol")
	}
	return algo, proto
}

// octaveShare is half the distance in octaves between a size's neighbours.
func octaveShare(axis []uint64, k int) float64 {
	from, to := log2(axis[max(k-1, 0)]), log2(axis[min(k+1, len(axis)-1)])
	return max((to-from)/2, 1e-3)
}

// fewestSwitches finds the path for the highest price of a switch that does not
// lose too much.
func fewestSwitches(options []option, axis []uint64) []int {
	octaves := max(log2(axis[len(axis)-1])-log2(axis[0]), 1)
	path := cheapestPath(options, len(axis), switchPrice)
	for price := switchPrice * priceSteps; price < highestPrice; price *= priceSteps {
		cheaper := cheapestPath(options, len(axis), price)
		lost := 0.0
		for k, o := range cheaper {
			lost += options[o].cost[k]
		}
		if lost > mostLost*octaves {
			break
		}
		path = cheaper
	}
	return path
}

// cheapestPath chooses an option for each size such that costs and switches cost
// the least in all; of equals the first. Dynamic programming over sizes.
func cheapestPath(options []option, n int, price float64) []int {
	total := make([]float64, len(options))
	from := make([][]int, n)
	for k := range n {
		from[k] = make([]int, len(options))
		best := 0
		for o := range options {
			if total[o] < total[best] {
				best = o
			}
		}
		next := make([]float64, len(options))
		for o := range options {
			next[o], from[k][o] = total[o], o
			if k > 0 && total[best]+price < total[o] {
				next[o], from[k][o] = total[best]+price, best
			}
			next[o] += options[o].cost[k]
		}
		total = next
	}
	last := 0
	for o := range options {
		if total[o] < total[last] {
			last = o
		}
	}
	path := make([]int, n)
	for k := n - 1; k >= 0; k-- {
		path[k] = last
		last = from[k][last]
	}
	return path
}

// WriteRows writes rows in the ten columns of NCCL's example tuner, which RCCL
// reads too: lower-case names, plain numbers, -1 for any.
func WriteRows(w io.Writer, rows []Row) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff")
	for _, r := range rows {
		if r.Verified > 0 {
			fmt.Fprintf(out, "# verified: the fastest of what was measured once more, at %d of its sizes\n", r.Verified)
		}
		fmt.Fprintln(out, r)
	}
	return out.Flush()
}

// String is the line of a policy.
func (r Row) String() string {
	channels := r.Channels
	if channels == 0 {
		channels = -1
	}
	return fmt.Sprintf("%s,%d,%d,%s,%s,%d,%d,%d,-1,-1", r.Coll, r.Bytes.Min, r.Bytes.Max, r.Algo, r.Proto, channels, r.Nodes, r.Ranks)
}
