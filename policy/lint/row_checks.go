package lint

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// combination checks the cells asked for against those that NCCL offers, and reports whether any is
// left.
func (c *check) combination(r *row) bool {
	if r.LeavesToNCCL() {
		return true
	}
	can := r.offered()
	if r.cells&can == 0 {
		where := ""
		if offeredAnywhere(r)&r.cells != 0 {
			where = " with " + r.key.String()
		}
		c.report("never-offered", r.Line, "algorithm", "%s is never available in NCCL for %s%s (it has %s)", r.cells,
			r.collName(), where, can)
		return false
	}
	if can = c.available(r); can&r.cells == 0 {
		c.report("not-on-this-machine", r.Line, "algorithm",
			"%s is not available on this machine for %s with %s (it has %s)", r.cells, r.collName(), r.key, can)
		return false
	}
	return true
}

// plainRow is a row that RCCL's own tuner takes for what it is here: names and decimal numbers, 8 to 10 fields, none of
// them empty (projects/rccl/src/plugin/tuner/csv_tuner.cc of ROCm/rocm-systems at 22af4d53).
var plainRow = regexp.MustCompile(`^[ \t]*(broadcast|reduce|allgather|reducescatter|allreduce)[ \t]*,[ \t]*[0-9]+` +
	`[ \t]*,[ \t]*[0-9]+[ \t]*,[ \t]*(tree|ring|collnet_direct|collnet_chain|nvls|nvls_tree|pat)[ \t]*,[ \t]*` +
	`(ll|ll128|simple)[ \t]*(,[ \t]*(-1|[0-9]+)[ \t]*){3,5}$`)

// ownTuner finds rows that RCCL's own tuner reads otherwise, or not at all.
func (c *check) ownTuner() {
	const longest = 255
	inOrder := true
	for i, name := range []string{"collective", "min_bytes", "max_bytes", "algorithm", "protocol", "channels", "nodes",
		"ranks"} {
		inOrder = inOrder && c.sheet.ColumnNumber(name) == i+1
	}
	for _, r := range c.rows {
		text := strings.TrimRight(c.sheet.Row(r.Line), "\r\n")
		if !inOrder || len(text) > longest || !plainRow.MatchString(text) {
			c.report("rccl-own-tuner", r.Line, "",
				"where RCCL cannot load the library, its own tuner reads this file and takes the row otherwise, or "+
					"not at all")
		}
	}
}

func offeredAnywhere(r *row) (can cells) {
	for _, coll := range r.Colls() {
		can |= offered(coll, keyOf(model.Key{Coll: coll, Comm: nccl.Comm{Nodes: anyValue, Ranks: anyValue}}))
	}
	return can
}

// machine returns NCCL's estimates of the communicator that the row is for; nil where the row is for several, or where
// the machine is not known.
func (c *check) machine(r *row) *tuning.Tuning {
	if c.opt.Machine == nil || r.key.wants[policy.Nodes] < 0 || r.key.wants[policy.Ranks] < 0 {
		return nil
	}
	return c.opt.Machine(nccl.Comm{Nodes: int(r.key.wants[policy.Nodes]), Ranks: int(r.key.wants[policy.Ranks])})
}

// available returns the cells that NCCL offers for a row, on the machine where that is known.
func (c *check) available(r *row) (can cells) {
	t := c.machine(r)
	if t == nil {
		return r.offered()
	}
	for _, coll := range r.Colls() {
		table := t.Table(coll, 1<<20, 1)
		can |= cellsWhere(func(c nccl.Cell) bool { return table[c.Algo][c.Proto] >= 0 })
	}
	return can
}

// channels checks the channel count.
func (c *check) channels(r *row) {
	if r.Channels == 0 {
		return
	}
	settable := r.cells & r.offered() & cellsWhere(func(cell nccl.Cell) bool {
		return nccl.ChannelsCanBeSet(cell.Algo, max(1, int(r.key.wants[policy.Nodes])))
	})
	if settable == 0 {
		c.report("channels-left-alone", r.Line, "channels",
			"channels %s has no effect with %s over %s: NCCL does not check the number there, so it is left alone",
			c.sheet.Field(r.Line, "channels"), r.cells&r.offered(), r.key)
		return
	}
	if n, err := strconv.Atoi(c.sheet.Field(r.Line, "channels")); err == nil && n > nccl.MaxChannels {
		c.report("channels-above-64", r.Line, "channels", "channels %d is read as %d, the most that NCCL has", n,
			nccl.MaxChannels)
	}
	if r.NCCL.MayUseUncheckedAllGather() && slices.Contains(r.Colls(), nccl.CollAllGather) &&
		settable&offered(nccl.CollAllGather, r.key) != 0 {
		c.report("channels-unchecked", r.Line, "channels",
			"NCCL 2.29.2 to 2.30.7 may use an allgather's channel count unchecked and crash: the library leaves it "+
				"alone there")
	}
	if t := c.machine(r); t != nil {
		most := 0
		for _, cell := range settable.all() {
			has := t.Channels(cell.Algo)
			if t.NCCL.Has(nccl.ChannelsOnlyLower) {
				has, _ = t.ChannelsAndWarps(cell.Algo, cell.Proto, int64(min(r.Bytes.Max, math.MaxInt64)))
			}
			most = max(most, has)
		}
		switch {
		case int(r.Channels) <= most || most == 0:
		case t.NCCL.Has(nccl.ChannelsOnlyLower):
			c.report("channels-above-machine", r.Line, "channels",
				"channels %d, but with %s NCCL %s takes at most %d by itself for %s of the row's sizes on this "+
					"machine, and a row's number only where it is lower", r.Channels, r.key, t.NCCL, most, settable)
		default:
			c.report("channels-above-machine", r.Line, "channels",
				"channels %d, but with %s NCCL has %d for %s on this machine and lowers the number", r.Channels, r.key,
				most, settable)
		}
	}
}

// chunk checks the chunk size against the largest grain of the protocols that the row may end up with.
func (c *check) chunk(r *row) {
	if r.ChunkBytes == 0 {
		return
	}
	worst := slices.MaxFunc((r.cells & r.offered()).all(), func(a, b nccl.Cell) int {
		return cmp.Compare(a.Proto.Grain(), b.Proto.Grain())
	}).Proto
	if r.ChunkBytes < worst.Grain() {
		c.report("chunk-below-grain", r.Line, "chunk_bytes", "chunk_bytes %s is raised to %s's grain of %d bytes",
			nccl.FormatBytes(r.ChunkBytes), worst, worst.Grain())
	}
}

// bound finds upper bounds at the end of 31 or 32 bits beyond which no row goes on.
func (c *check) bound(r *row) {
	for _, b := range []struct {
		column string
		sizes  nccl.Range
		min    func(*row) uint64
	}{
		{"max_bytes", r.Bytes, func(o *row) uint64 { return o.Bytes.Min }},
		{"max_bytes_per_rank", r.BytesPerRank, func(o *row) uint64 { return o.BytesPerRank.Min }},
	} {
		n := b.sizes.Max // the largest number of 31 or 32 bits, or next to the latter
		if n != math.MaxInt32 && (n < math.MaxUint32-1 || n > math.MaxUint32+1) {
			continue
		}
		continued := slices.ContainsFunc(c.rows, func(o *row) bool {
			return b.min(o) >= b.sizes.Max && o != r && o.active() && o.key.meets(r.key)
		})
		if continued {
			continue
		}
		c.report("4gib-bound", r.Line, b.column, "%s %s is where the row ends; was inf meant?", b.column,
			cmp.Or(c.sheet.Field(r.Line, b.column), strconv.FormatUint(b.sizes.Max, 10)))
	}
}

// later are what rows may ask that not every release of NCCL has, with the release that brought it.
var later = []struct {
	column string
	what   string
	since  nccl.Change
	is     func(*row) bool
	idle   bool // without it the row never matches
}{
	{"chunk_bytes", "asks no tuner for chunk sizes", nccl.ChunkSizes,
		func(r *row) bool { return r.ChunkBytes > 0 }, false},
	{"reg_buff", "does not tell whether buffers are registered", nccl.TellsRegistered,
		func(r *row) bool { return r.Numbers[policy.RegBuff] >= 0 }, true},
	{"comm_name", noName, nccl.TellsName, func(r *row) bool { return r.Name != "" }, true},
	{"when", noName, nccl.TellsName, func(r *row) bool { return r.When.Asks(when.Name) }, true},
	{"algorithm", "has no pat", nccl.PAT, func(r *row) bool { return r.cells == r.cells&patCells }, true},
	{"algorithm", "has pat only where each node has one rank", nccl.PATOnManyRanks,
		func(r *row) bool { return r.cells == r.cells&patCells && r.onManyRanks() }, true},
}

const noName = "does not tell a communicator's name"

var patCells = cellsWhere(func(c nccl.Cell) bool { return c.Algo == nccl.AlgoPAT })

// onManyRanks reports whether all communicators of the row have nodes with several ranks.
func (r *row) onManyRanks() bool {
	nodes, ranks := r.key.wants[policy.Nodes], r.key.wants[policy.Ranks]
	return r.key.wants[policy.RanksPerNode] > 1 || nodes > 0 && ranks > nodes
}

// release checks the row against the releases that it is for: those that it names, and of these the one in use. It
// reports whether what the row asks for may be offered there.
func (c *check) release(r *row) bool {
	if !r.NCCL.Overlaps(nccl.WithTuner) {
		c.report("no-effect-in-release", r.Line, "nccl", "no release of NCCL in %s is known (known: %s to %s)",
			c.sheet.Field(r.Line, "nccl"), nccl.WithTuner.Min, nccl.WithTuner.Max)
		return true
	}
	releases := r.NCCL
	if c.opt.NCCL != 0 {
		if !releases.Contains(nccl.Only(c.opt.NCCL)) {
			c.report("no-effect-in-release", r.Line, "nccl", "the row is for NCCL %s, and NCCL %s keeps its default",
				r.NCCL, c.opt.NCCL).Severity = Note
			return true
		}
		releases = nccl.Only(c.opt.NCCL)
	}
	for _, l := range later {
		if !l.is(r) || releases.Overlaps(since(l.since)) {
			continue
		}
		outcome := "it is left to NCCL"
		if l.idle {
			outcome = "the row never decides"
		}
		c.report("no-effect-in-release", r.Line, l.column, "NCCL %s %s, which comes with %s: %s", releases, l.what,
			nccl.Version(l.since), outcome)
		return !l.idle
	}
	return true
}

// sumOrders finds rows that ask for one configuration, but for one that does not add all elements in one order.
// vary are the rows that do not even ask for one. The order is that of NCCL's kernels (src/device/all_reduce.h,
// src/enqueue.cc, 2.30); that of switches is from its maintainers (NVIDIA/nccl issue 1497).
func (c *check) sumOrders(vary policy.Problems) {
	found := map[int]bool{} // lines
	for _, v := range vary {
		found[v.Line] = true
	}
	for _, r := range c.rows {
		if !r.Adds() || found[r.Line] {
			continue
		}
		why := ""
		switch algo := r.cells.all()[0].Algo; {
		case algo != nccl.AlgoTree && algo != nccl.AlgoRing && algo != nccl.AlgoPAT:
			why = "a switch adds, in an order that NCCL does not control"
		case r.Channels > 1:
			why = "channels add in different orders, and the size decides which elements a channel has"
		case algo == nccl.AlgoRing && slices.Contains(r.Colls(), nccl.CollAllReduce):
			why = "an element's place in the ring's chunks decides the order, and the size decides the place"
		default:
			continue
		}
		c.report("sum-order", r.Line, "algorithm", "%s: %s, so that sums may depend on the size of the call",
			r.Asks(), why)
	}
}
