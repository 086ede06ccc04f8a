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
	// Floored says that so many channels were measured only under NCCL_MIN_NCHANNELS or NCCL_MIN_CTAS.
	Floored bool
}

// RowOptions say how a model becomes rows.
type RowOptions struct {
	// UnknownDefault writes rows also where nobody measured what the library
	// would do by itself, and nothing says that they are better.
	UnknownDefault bool
}

// mostLost in ln(us): what a row may take longer at a size than the model's choice there,
// so that a file needs few rows. It is a bound on each size, not on their mean.
const mostLost = 0.025

// Rows writes a model as few rows, each for sizes at which the model would choose the row's
// configuration over NCCL's. Sizes at which the model abstains have none, nor has any
// size beyond those measured.
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

// groupRows cuts the sizes at which the model speaks into as few rows as can be, of as
// many the ones that lose least.
func groupRows(m *model.Model, g *model.Group, opts RowOptions) (rows []Row) {
	key, speaks, options := rowOptions(m, g, opts)
	for i := 0; i < len(g.Axis); {
		j := i
		for j < len(g.Axis) && speaks[j] {
			j++
		}
		if j == i {
			i++
			continue
		}
		for _, s := range fewestSpans(options, i, j) {
			r := Row{Key: key, Config: options[s.option].config, Bytes: nccl.Range{Min: g.Axis[s.from], Max: g.Axis[s.to-1]}, Floored: options[s.option].floored}
			if s.to < j {
				r.Bytes.Max = g.Axis[s.to] - 1
			}
			rows = append(rows, r)
		}
		i = j
	}
	return rows
}

// option is a configuration that a row can ask for, with what it loses at each size of the
// axis against the model's choice, in ln(us); infinite where it must not be asked for.
type option struct {
	config  Config
	floored bool
	lost    []float64
}

// rowOptions lists what rows can ask for, and at which sizes there are rows.
func rowOptions(m *model.Model, g *model.Group, opts RowOptions) (key Key, speaks []bool, options []option) {
	coll, err := nccl.Colls.Parse(g.Coll)
	if err != nil {
		panic(err) // m is compiled
	}
	key = Key{coll, g.Nodes, g.Ranks}
	view := m.For(g.Nodes, g.Ranks)
	everything := nccl.Everything()
	speaks = make([]bool, len(g.Axis))
	of := map[Config]int{}
	for k, b := range g.Axis {
		choice, why := view.Choose(coll, b, everything)
		if speaks[k] = why == model.Speaks || why == model.SilentDefault && opts.UnknownDefault && choice.Algo >= 0; !speaks[k] {
			continue
		}
		for _, c := range view.Candidates(coll, b, everything) {
			lost := c.LnMicros - choice.LnMicros
			gains := why == model.SilentDefault || choice.DefaultLnMicros-c.LnMicros > choice.Needed
			chosen := c.Algo == choice.Algo && c.Proto == choice.Proto && c.Channels == choice.Channels
			if c.Bar != model.BarNone || !chosen && (choice.Verified || c.Floored || !(lost <= mostLost && gains)) || c.Channels > 0 && !nccl.ChannelsCanBeSet(c.Algo, g.Nodes) {
				continue
			}
			config := Config{FamilyKey{c.Algo, c.Proto}, c.Channels}
			at, ok := of[config]
			if !ok {
				at = len(options)
				of[config] = at
				o := option{config, c.Floored, make([]float64, len(g.Axis))}
				for i := range o.lost {
					o.lost[i] = math.Inf(1)
				}
				options = append(options, o)
			}
			options[at].lost[k] = max(0, lost)
		}
		if !slices.ContainsFunc(options, func(o option) bool { return !math.IsInf(o.lost[k], 1) }) {
			speaks[k] = false // its channels cannot be set
		}
	}
	return key, speaks, options
}

// span is a row over values from to to-1 of an axis.
type span struct{ from, to, option int }

// fewestSpans covers the values from first to last-1, each of which has an option, with
// the fewest spans, of as many those that lose least in all. Dynamic programming.
func fewestSpans(options []option, first, last int) []span {
	type best struct {
		spans int
		lost  float64
		by    span
	}
	upTo := make([]best, last-first+1) // what is best for all before a value
	for to := first + 1; to <= last; to++ {
		b := best{spans: math.MaxInt}
		for o := range options {
			lost := 0.0
			for from := to - 1; from >= first && !math.IsInf(options[o].lost[from], 1); from-- {
				lost += options[o].lost[from]
				before := upTo[from-first]
				if n, sum := before.spans+1, before.lost+lost; n < b.spans || n == b.spans && sum < b.lost {
					b = best{n, sum, span{from, to, o}}
				}
			}
		}
		upTo[to-first] = b
	}
	var spans []span
	for to := last; to > first; {
		s := upTo[to-first].by
		spans = append(spans, s)
		to = s.from
	}
	slices.Reverse(spans)
	return spans
}

// WriteRows writes rows in the ten columns of NCCL's example tuner, which RCCL
// reads too: lower-case names, plain numbers, -1 for any.
func WriteRows(w io.Writer, rows []Row) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff")
	for i, r := range rows {
		if i > 0 && rows[i-1].Key == r.Key && rows[i-1].Bytes.Max+1 < r.Bytes.Min {
			fmt.Fprintln(out, "# tunefit:ignore gap -- the sizes in between are left to NCCL")
		}
		if r.Verified > 0 {
			fmt.Fprintf(out, "# verified: the fastest of what was measured once more, at %d of its sizes\n", r.Verified)
		}
		if r.Floored {
			var floors nccl.Floors
			floors.Add(r.Algo, r.Channels)
			fmt.Fprintln(out, floors.Comment())
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
