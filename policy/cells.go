package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxChannels is what NCCL can use. Files written for RCCL ask for more.
	maxChannels = 64
	// maxChannelsInFile is the last number that fits in NCCL's eight signed bits.
	maxChannelsInFile = 127
)

// cellReader turns the cells of one row into a Rule and reports each cell that
// it cannot read.
type cellReader struct {
	r    *reader
	line int
	row  *row
}

func (c *cellReader) fail(column string, err error) {
	c.r.fail(c.line, 1+slices.Index(c.r.columns, column), err)
}

// cell returns the row's cell of a column, by the column's name.
func (rw *row) cell(column string) *cell {
	switch column {
	case "collective":
		return &rw.Collective
	case "min_bytes":
		return &rw.MinBytes
	case "max_bytes":
		return &rw.MaxBytes
	case "algorithm":
		return &rw.Algorithm
	case "protocol":
		return &rw.Protocol
	case "channels":
		return &rw.Channels
	case "nodes":
		return &rw.Nodes
	case "ranks":
		return &rw.Ranks
	case "pipe_ops":
		return &rw.PipeOps
	case "reg_buff":
		return &rw.RegBuff
	case "ranks_per_node":
		return &rw.RanksPerNode
	case "min_bytes_per_rank":
		return &rw.MinBytesPerRank
	case "max_bytes_per_rank":
		return &rw.MaxBytesPerRank
	case "chunk_bytes":
		return &rw.ChunkBytes
	case "when":
		return &rw.When
	case "comment":
		return &rw.Comment
	}
	return &cell{present: true} // a column that the header misspells
}

// blank reports an empty line, or what a spreadsheet writes for one: ",,,,".
func (c *cellReader) blank() bool {
	if c.row.Collective.text != "" {
		return false
	}
	return !slices.ContainsFunc(c.r.columns, func(column string) bool { return c.row.cell(column).text != "" })
}

func (c *cellReader) rule() Rule {
	rw := c.row
	if text := rw.Collective.text; strings.ContainsAny(text, ";\t") && c.length() == 1 {
		c.r.fail(c.line, 0, fmt.Errorf("the row is one cell: %s (allowed: cells separated by commas)", quote(text)))
		return Rule{}
	}
	c.checkLength()
	rule := Rule{
		Line:         c.line,
		Coll:         c.coll(rw.Collective),
		Bytes:        c.sizes("min_bytes", rw.MinBytes, "max_bytes", rw.MaxBytes),
		BytesPerRank: c.sizes("min_bytes_per_rank", rw.MinBytesPerRank, "max_bytes_per_rank", rw.MaxBytesPerRank),
		Nodes:        int32(c.count("nodes", rw.Nodes, 1, 1<<30)),
		Ranks:        int32(c.count("ranks", rw.Ranks, 1, 1<<30)),
		RanksPerNode: int32(c.count("ranks_per_node", rw.RanksPerNode, 1, 1<<30)),
		PipeOps:      int32(c.count("pipe_ops", rw.PipeOps, 0, 1<<30)),
		RegBuff:      int8(c.count("reg_buff", rw.RegBuff, 0, 1)),
		Cells:        c.cellSet(),
		Channels:     c.channels(),
		ChunkBytes:   c.chunkBytes(),
		When:         c.when(),
	}
	c.checkDefault()
	c.checkCommunicator(&rule)
	return rule
}

// checkLength accepts a row that leaves out its last cells as long as NCCL's own
// format lets it.
func (c *cellReader) checkLength() {
	columns := c.r.columns
	beyond := c.row.Beyond.text != ""
	if !beyond && c.row.cell(columns[len(columns)-1]).present {
		return
	}
	want := fmt.Sprintf("%d, as in the header", len(columns))
	if c.r.headerLine == 0 {
		want = fmt.Sprintf("%d to %d: %s; more columns need a header row", mandatoryColumns, headerlessColumns, strings.Join(columns, ","))
	}
	if beyond {
		c.r.fail(c.line, len(columns)+1, fmt.Errorf("a cell beyond the last column: %s (allowed: %s)", quote(c.row.Beyond.text), want))
		return
	}
	for _, column := range columns {
		if slices.Contains(columnNames[:mandatoryColumns], column) && !c.row.cell(column).present {
			c.r.fail(c.line, 0, fmt.Errorf("the row ends with cell %d, before %s (allowed: %s)", c.length(), column, want))
			return
		}
	}
}

// length returns how many cells the row has.
func (c *cellReader) length() (n int) {
	for n < len(c.r.columns) && c.row.cell(c.r.columns[n]).present {
		n++
	}
	return n
}

// isAny reports the spellings of "no restriction".
func (c cell) isAny() bool {
	switch c.text {
	case "", "-1", "*":
		return true
	}
	return strings.EqualFold(c.text, "any")
}

func (c *cellReader) coll(cl cell) Coll {
	if cl.isAny() {
		return anyColl
	}
	if _, ok := neverAsked.parse(cl.text); ok {
		return collNeverAsked
	}
	coll, ok := collNames.parse(cl.text)
	if !ok {
		c.fail("collective", fmt.Errorf("%w, -1 for any)", collNames.unknown("collective", cl.text)))
	}
	return coll
}

func (c *cellReader) sizes(minName string, low cell, maxName string, high cell) Range {
	r := everySize
	var err error
	ok := true
	if !low.isAny() {
		if r.Min, err = ParseBytes(low.text); err != nil {
			c.fail(minName, fmt.Errorf("%s: %w", minName, err))
			ok = false
		}
	}
	if !high.isAny() && !strings.EqualFold(high.text, "inf") {
		if r.Max, err = ParseBytes(high.text); err != nil {
			c.fail(maxName, fmt.Errorf("%s: %w", maxName, err))
			ok = false
		}
	}
	if ok && r.Min > r.Max {
		c.fail(maxName, fmt.Errorf("%s %s is below %s %s: the row matches nothing", maxName, high.text, minName, low.text))
	}
	return r
}

// count reads a whole number from least to most, or anyInt.
func (c *cellReader) count(name string, cl cell, least, most int64) int64 {
	if cl.isAny() {
		return anyInt
	}
	n, err := strconv.ParseInt(cl.text, 10, 64)
	if err != nil || n < least || n > most {
		upper := " or more"
		if most < 1<<30 {
			upper = fmt.Sprintf(" to %d", most)
		}
		c.fail(name, fmt.Errorf("%s is %s (allowed: %d%s, or -1 for any)", name, quote(cl.text), least, upper))
		return anyInt
	}
	return n
}

func (c *cellReader) channels() int8 {
	cl := c.row.Channels
	if cl.isAny() || cl.text == "0" { // 0 is what NCCL itself calls its default
		return 0
	}
	n, err := strconv.Atoi(cl.text)
	if err != nil || n < 1 || n > maxChannelsInFile {
		c.fail("channels", fmt.Errorf("channels is %s (allowed: 1 to %d, or -1 for NCCL's own; up to %d is read as %d)",
			quote(cl.text), maxChannels, maxChannelsInFile, maxChannels))
		return 0
	}
	return int8(min(n, maxChannels))
}

func (c *cellReader) chunkBytes() uint64 {
	cl := c.row.ChunkBytes
	if cl.isAny() {
		return 0
	}
	n, err := ParseBytes(cl.text)
	if err == nil && n == 0 {
		err = errors.New("0 is no chunk size (allowed: 1 or more, or -1 for NCCL's own)")
	}
	if err != nil {
		c.fail("chunk_bytes", fmt.Errorf("chunk_bytes: %w", err))
	}
	return n
}

func (c *cellReader) when() *Condition {
	text := c.row.When.text
	if c.row.When.isAny() {
		return nil
	}
	condition, err := c.r.when.read(text, 1+slices.Index(c.r.columns, "when"))
	if err != nil {
		c.fail("when", err)
	}
	return condition
}

func (c *cellReader) cellSet() CellSet {
	set := everyCell
	if cl := c.row.Algorithm; !isDefault(cl) {
		set.algos = oneOrAllBut(c, "algorithm", cl, algoNames, everyCell.algos, "default, ")
	}
	set.protos = oneOrAllBut(c, "protocol", c.row.Protocol, protoNames, everyCell.protos, "")
	return set
}

// oneOrAllBut reads a name, a name to avoid ("!tree") or any, as a set of bits.
func oneOrAllBut[T ~int8, Set uint8 | uint16](c *cellReader, column string, cl cell, known names[T], every Set, also string) Set {
	if cl.isAny() {
		return every
	}
	name, avoid := strings.CutPrefix(cl.text, "!")
	v, ok := known.parse(strings.TrimSpace(name))
	if !ok {
		c.fail(column, fmt.Errorf("%w, %s-1 for any, !%s to avoid one)", known.unknown(column, cl.text), also, known.canonical[0]))
		return every
	}
	if avoid {
		return every &^ (1 << v)
	}
	return 1 << v
}

func isDefault(cl cell) bool { return strings.EqualFold(cl.text, "default") }

// checkDefault: a row that leaves everything to NCCL cannot ask for something.
func (c *cellReader) checkDefault() {
	if !isDefault(c.row.Algorithm) {
		return
	}
	for _, other := range []struct {
		name string
		cell cell
	}{{"protocol", c.row.Protocol}, {"channels", c.row.Channels}, {"chunk_bytes", c.row.ChunkBytes}} {
		if !other.cell.isAny() && !(other.name == "channels" && other.cell.text == "0") {
			c.fail(other.name, fmt.Errorf("%s is %s in a row with algorithm default, which leaves everything to NCCL (allowed: -1; or algorithm -1)",
				other.name, quote(other.cell.text)))
		}
	}
}

// checkCommunicator: no communicator has more nodes than ranks, or other numbers
// of nodes, ranks and ranks per node than fit together.
func (c *cellReader) checkCommunicator(r *Rule) {
	const none = "the row matches nothing"
	switch {
	case r.Nodes > 0 && r.Ranks > 0 && r.Nodes > r.Ranks:
		c.fail("ranks", fmt.Errorf("%d ranks on %d nodes: %s", r.Ranks, r.Nodes, none))
	case r.RanksPerNode > 0 && r.Ranks > 0 && r.Ranks%r.RanksPerNode != 0,
		r.RanksPerNode > 0 && r.Ranks > 0 && r.Nodes > 0 && int64(r.Nodes)*int64(r.RanksPerNode) != int64(r.Ranks):
		c.fail("ranks_per_node", fmt.Errorf("%d ranks per node do not make %d ranks: %s", r.RanksPerNode, r.Ranks, none))
	}
}
