package fit

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Row is a line of a policy file: a configuration for a range of sizes on one
// communicator.
type Row struct {
	Key
	nccl.Config
	Bytes nccl.Range
	// From is how many nodes were measured where those of Key were not, and Measured is what the row asks for there.
	// 0: the row is for nodes that were measured.
	From     int
	Measured nccl.Config
	// Floored says that so many channels were measured only under NCCL_MIN_NCHANNELS or NCCL_MIN_CTAS.
	Floored bool
	// Comments are lines before the row, which say why it is there or what it is for.
	Comments []string
	Evidence Evidence
}

// Group is the key of the group that was measured.
func (r Row) Group() Key {
	if r.From > 0 {
		r.Key.Comm = nccl.Comm{Nodes: r.From, Ranks: r.Ranks / r.Nodes * r.From}
	}
	return r.Key
}

// Rows writes a model as few rows, each for sizes at which the model would choose the row's
// configuration over NCCL's. There are no rows where the model abstains, nor beyond the sizes
// measured, nor for a single size between others.
func Rows(m *model.Model) []Row {
	rows := make([][]Row, len(m.File.CurveSets))
	each(len(rows), func(i int) { rows[i] = groupRows(m, &m.File.CurveSets[i], 0) })
	return slices.Concat(rows...)
}

// groupRows covers the sizes at which the model decides, and gains more than least in ln(us), with the fewest rows.
// Among equally few, it takes those that lose least. Each row has its evidence.
func groupRows(m *model.Model, g *model.CurveSet, least float64) (rows []Row) {
	c := newCover(m, g, least)
	for i := 0; i < len(c.sizes); {
		j := i
		for j < len(c.sizes) && c.decides(j) {
			j++
		}
		if !slices.ContainsFunc(c.sizes[i:j], c.isMeasured) {
			i = max(i+1, j)
			continue
		}
		for _, s := range fewestSpans(c.options, i, j) {
			o := &c.options[s.option]
			rows = append(rows, Row{Key: c.key, Config: o.config,
				Bytes: nccl.Range{Min: c.sizes[s.from], Max: c.sizes[s.to-1]}, Floored: o.floored})
			if s.from > i {
				c.join(&rows[len(rows)-2], &rows[len(rows)-1])
			}
		}
		i = j
	}
	c.around(rows)
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Bytes.Min == r.Bytes.Max })
	for i := range rows {
		rows[i].Evidence = evidenceOf(&rows[i], m, g)
	}
	return rows
}

// around widens each row for one measured size, which a job hardly ever calls exactly. The row then reaches half of the
// way to the sizes next to it, unless its configuration is expected to lose there and did not win a verification.
func (c *cover) around(rows []Row) {
	for i := range rows {
		r := &rows[i].Bytes
		if r.Min != r.Max || !c.isMeasured(r.Min) {
			continue
		}
		k, _ := slices.BinarySearch(c.sizes, r.Min)
		may := func(bytes uint64) bool { return c.won[k] || !(c.expects(rows[i].Config, bytes) < 0) }
		if k > 0 && !c.neverMore && may(c.sizes[k-1]) {
			r.Min = middle(c.sizes[k-1], r.Min) + 1
		}
		if k+1 < len(c.sizes) && may(c.sizes[k+1]) {
			r.Max = middle(r.Max, c.sizes[k+1])
		}
		if i > 0 {
			r.Min = max(r.Min, rows[i-1].Bytes.Max+1)
		}
		if i+1 < len(rows) {
			r.Max = min(r.Max, rows[i+1].Bytes.Min-1)
		}
	}
}

// middle of two sizes, by their logarithms.
func middle(a, b uint64) uint64 { return uint64(math.Sqrt(float64(a) * float64(b))) }

func (c *cover) isMeasured(bytes uint64) bool {
	_, ok := slices.BinarySearch(c.measured, bytes)
	return ok
}

// join fills the sizes between two rows. They go to the row whose configuration is also allowed at the nearest size of
// the other row, and to the row below if that holds for both. If it holds for neither, each row gets the half next to
// it, provided that its configuration was measured there.
func (c *cover) join(below, above *Row) {
	from, to := below.Bytes.Max, above.Bytes.Min
	half := middle(from, to)
	switch {
	case to-from < 2:
	case c.may(below.Config, to):
		below.Bytes.Max = to - 1
	case c.may(above.Config, from):
		above.Bytes.Min = from + 1
	default:
		if c.known(below.Config, half) {
			below.Bytes.Max = half
		}
		if c.known(above.Config, half+1) {
			above.Bytes.Min = min(half+1, to)
		}
	}
}

// option is a configuration that a row can ask for, with what it loses at each size
// against the model's choice, in ln(us); infinite where it must not be asked for.
type option struct {
	config  nccl.Config
	floored bool
	lost    []float64
}

// cover is what rows of a group can be made of.
type cover struct {
	key      Key
	view     *model.View
	sizes    []uint64 // ascending
	measured []uint64 // ascending
	// neverMore keeps rows to sizes at which their configuration was measured: RCCL takes fewer channels at smaller
	// ones.
	neverMore bool
	least     float64 // gain of a row at each size, in ln(us)
	won       []bool  // in a verification
	options   []option
}

var everything = nccl.Everything()

func newCover(m *model.Model, g *model.CurveSet, least float64) *cover {
	c := &cover{key: g.Key(), view: m.For(g.Comm), measured: g.Sizes(), least: least}
	c.sizes = closer(c.measured)
	for _, v := range g.Verified { // closer leaves some out
		c.sizes = append(c.sizes, v.Bytes)
	}
	slices.Sort(c.sizes)
	c.sizes = slices.Compact(c.sizes)
	onlyLower, neverMore := channelRules(m.File.Provenance.NCCL)
	c.neverMore = neverMore
	c.won = make([]bool, len(c.sizes))
	for k, b := range c.sizes {
		choice, why := c.view.Choose(c.call(b), everything)
		if why != model.Decides || !(choice.LnGain() > least) {
			continue
		}
		won, isBetween := wonAround(g.Verified, b)
		isBetween = isBetween && !c.isMeasured(b)
		for _, o := range c.view.Candidates(c.call(b), everything) {
			config, lost := o.Config, o.LnMicros-choice.LnMicros
			switch {
			case isBetween && !slices.Contains(won, config):
			case o.Channels > 0 && !nccl.ChannelsCanBeSet(o.Algo, g.Nodes):
			case onlyLower && raisesOwn(g.Default, config, b):
			case config == choice.Config:
				c.option(config, o.Floored)[k] = 0
			case choice.Verified || o.Floored || o.Bar != model.BarNone || !(lost <= mostLost) && !isBetween:
			case c.gains(config, b):
				c.option(config, o.Floored)[k] = max(0, lost)
			}
		}
		c.won[k] = choice.Verified
	}
	return c
}

// decides reports whether there is a row at a size. There is none where the channels of what the model chooses cannot
// be set, or cannot be raised.
func (c *cover) decides(k int) bool {
	return slices.ContainsFunc(c.options, func(o option) bool { return !math.IsInf(o.lost[k], 1) })
}

// wonAround returns what won the verifications at the sizes next to one that was not verified. isBetween is false
// unless there is one on either side. In between the model chooses among the winners only: its curves pass through
// times that the verification has shown to be lucky or disturbed.
func wonAround(verified []model.Verified, bytes uint64) (won []nccl.Config, isBetween bool) {
	i := slices.IndexFunc(verified, func(v model.Verified) bool { return v.Bytes >= bytes })
	if i < 1 || verified[i].Bytes == bytes {
		return nil, false
	}
	for _, v := range verified[i-1 : i+1] {
		if c := v.Config(); c.Known() {
			won = append(won, c)
		}
	}
	return won, true
}

// expects is what a configuration should gain over NCCL's choice, in ln(us); NaN where that is not known.
func (c *cover) expects(config nccl.Config, bytes uint64) float64 {
	x, _ := c.view.Expect(c.call(bytes), everything, config)
	return x.LnGain()
}

func (c *cover) call(bytes uint64) nccl.Call { return nccl.Call{Coll: c.key.Coll, Bytes: bytes} }

// raisesOwn reports whether a configuration is NCCL's choice with more channels than NCCL takes at the next measured
// size. At smaller sizes NCCL takes no more than there.
func raisesOwn(byDefault []model.DefaultPoint, c nccl.Config, bytes uint64) bool {
	i := slices.IndexFunc(byDefault, func(p model.DefaultPoint) bool { return p.Bytes >= bytes })
	if i < 0 {
		return false
	}
	choice := byDefault[i].Config()
	return choice.Cell == c.Cell && choice.Channels > 0 && c.Channels > choice.Channels
}

const (
	// closeTogether, in octaves: one size stands for others so near to it.
	closeTogether = 1.0 / 16
	// farApart, in octaves: between sizes so far apart, a model is asked once more.
	farApart = 1.0 / 3
)

// closer returns sizes that stand for all between the first and the last one given.
func closer(measured []uint64) (sizes []uint64) {
	for i, b := range measured {
		if i == 0 {
			sizes = append(sizes, b)
			continue
		}
		from := sizes[len(sizes)-1]
		gap := log2(b) - log2(from)
		if gap < closeTogether && i+1 < len(measured) {
			continue
		}
		steps := math.Ceil(gap/farApart - 1e-9)
		for k := 1.0; k < steps; k++ {
			between := uint64(math.Round(float64(from) * math.Exp2(gap*k/steps)))
			if between > sizes[len(sizes)-1] && between < b {
				sizes = append(sizes, between)
			}
		}
		sizes = append(sizes, b)
	}
	return sizes
}

// option is what asking for a configuration loses at each size, infinite until known.
func (c *cover) option(config nccl.Config, floored bool) []float64 {
	at := slices.IndexFunc(c.options, func(o option) bool { return o.config == config })
	if at < 0 {
		at = len(c.options)
		c.options = append(c.options, option{config, floored, slices.Repeat([]float64{math.Inf(1)}, len(c.sizes))})
	}
	return c.options[at].lost
}

// may reports whether a row can ask for a configuration at one of the sizes.
func (c *cover) may(config nccl.Config, bytes uint64) bool {
	k, _ := slices.BinarySearch(c.sizes, bytes)
	return !math.IsInf(c.option(config, false)[k], 1)
}

// gains reports whether the model would choose a configuration over NCCL's if it knew no better one, and a row may.
func (c *cover) gains(config nccl.Config, bytes uint64) bool {
	x, _ := c.view.Expect(c.call(bytes), everything, config)
	return x.LnGain() > max(x.Needed, c.least)
}

// known reports whether a configuration was measured around a size and its label is trusted there.
func (c *cover) known(config nccl.Config, bytes uint64) bool {
	return slices.ContainsFunc(c.view.Candidates(c.call(bytes), everything), func(o model.Candidate) bool {
		return o.Config == config && o.Bar == model.BarNone
	})
}

// span is a row over values from to to-1 of an axis.
type span struct{ from, to, option int }

// fewestSpans covers the values from first to last-1, each of which has an option, with
// the fewest spans. Among equally few it takes those that lose least in all. It is
// dynamic programming.
func fewestSpans(options []option, first, last int) []span {
	type best struct {
		spans int
		lost  float64
		by    span
	}
	upTo := make([]best, last-first+1) // the best spans for all values before one
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

const rowColumns = "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"

// howToRead is at the head of a policy. NCCL's example tuner takes what is beyond 255 bytes of a line for another row.
var howToRead = []string{
	"How to read this: the first row that matches a call decides it. NCCL decides all other calls, by its default.",
	"Above each row: the sizes that it is for, as nccl-tests counts them, and how much faster it is there than the",
	"default. That is the share of the default's time that it saves, least and most over the sizes measured. Then:",
	"  verified: 8 times in 3 starts  it and the default were measured so often, in so many starts, and it won",
	"  one run each: not sure     the fastest of single runs may have been lucky",
	"  tunefit:nodes N            it was measured on N nodes only: try it before you rely on it",
	"tunefit show FILE prints what it decides, tunefit check FILE looks for mistakes.",
}

// WritePolicy writes the rows for the releases that were measured, and names these. It says so if times were made up.
func WritePolicy(w io.Writer, rows []Row, made *model.Provenance) error {
	releases, with := made.Releases(), made.NCCL
	if releases == nccl.AnyRelease && !nccl.IsRCCL(with) {
		with = ""
	}
	origin := nccl.RemarkMeasured
	if made.SimulatedRows > 0 {
		origin = nccl.RemarkSimulated
	}
	head := howToRead
	if origin == nccl.RemarkSimulated || with != "" {
		head = slices.Concat([]string{nccl.Remark(origin, with, "")}, head)
	}
	if _, err := fmt.Fprintln(w, "# "+strings.Join(head, "\n# ")); err != nil {
		return err
	}
	return WriteRows(w, rows, releases)
}

// WriteRows writes rows for some releases of NCCL, in an eleventh column. If they are for all releases, they are in the
// ten columns of NCCL's example tuner, which RCCL reads too: lower-case names, plain numbers, -1 for any.
func WriteRows(w io.Writer, rows []Row, releases nccl.Releases) error {
	out := bufio.NewWriter(w)
	stamp := ""
	if releases == nccl.AnyRelease {
		fmt.Fprintln(out, "# "+rowColumns)
	} else {
		fmt.Fprintln(out, rowColumns+",nccl")
		stamp = "," + releases.String()
	}
	for i, r := range rows {
		if first := i == 0 || rows[i-1].Key != r.Key; first && r.Evidence != (Evidence{}) {
			fmt.Fprintf(out, "# %s:\n", r.Key)
		} else if !first && rows[i-1].Bytes.Max+1 < r.Bytes.Min {
			fmt.Fprintln(out, "# "+nccl.Remark(nccl.RemarkIgnore, "gap", "the sizes in between are left to NCCL"))
		}
		for _, comment := range r.comments() {
			fmt.Fprintln(out, "# "+comment)
		}
		fmt.Fprintf(out, "%s%s\n", r, stamp)
	}
	return out.Flush()
}

// comments are the texts of the comments before a row.
func (r Row) comments() []string {
	all := slices.Clone(r.Comments)
	if r.Evidence != (Evidence{}) {
		all = append(all, r.explanation())
	}
	if r.From > 0 {
		all = append(all, nccl.Remark(nccl.RemarkNodes, strconv.Itoa(r.From),
			fmt.Sprintf("not measured on %d", r.Nodes)))
	}
	if r.Floored {
		var floors nccl.Floors
		floors.Add(r.Algo, r.Channels)
		all = append(all, nccl.Remark(nccl.RemarkNeeds, floors.String(),
			"so many channels were measured only with that"))
	}
	return all
}

// String is the line of a policy for all releases.
func (r Row) String() string {
	channels := r.Channels
	if channels == 0 {
		channels = -1
	}
	return fmt.Sprintf("%s,%d,%d,%s,%s,%d,%d,%d,-1,-1", r.Coll, r.Bytes.Min, r.Bytes.Max, r.Algo, r.Proto, channels,
		r.Nodes, r.Ranks)
}
