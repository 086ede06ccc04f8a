package policy

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// maxChannelsInFile is the last number that fits in NCCL's eight signed bits. Files
// written for RCCL ask for more than NCCL can use.
const maxChannelsInFile = 127

// cellReader turns the cells of one row into a Rule and reports each cell that
// it cannot read.
type cellReader struct {
	r    *reader
	in   *csv.Reader
	line int
	row  *row
}

func (c *cellReader) fail(column string, err error) {
	c.r.fail(c.line, 1+slices.Index(c.r.columns, column), err)
}

// columns are all cells, in the order of columnNames.
func (rw *row) columns() [16]*string {
	return [...]*string{&rw.Collective, &rw.MinBytes, &rw.MaxBytes, &rw.Algorithm, &rw.Protocol, &rw.Channels, &rw.Nodes, &rw.Ranks,
		&rw.PipeOps, &rw.RegBuff, &rw.RanksPerNode, &rw.MinBytesPerRank, &rw.MaxBytesPerRank, &rw.ChunkBytes, &rw.When, &rw.Comment}
}

func (rw *row) trim() {
	for _, text := range rw.columns() {
		*text = strings.TrimSpace(*text)
	}
	rw.Beyond = strings.TrimSpace(rw.Beyond)
}

// cell returns the row's cell of a column, by the column's name.
func (rw *row) cell(column string) string {
	if i := slices.Index(columnNames, column); i >= 0 {
		return *rw.columns()[i]
	}
	return "" // a column that the header misspells
}

// blank reports an empty line, or what a spreadsheet writes for one: ",,,,".
func (c *cellReader) blank() bool {
	if c.row.Collective != "" {
		return false
	}
	return !slices.ContainsFunc(c.r.columns, func(column string) bool { return c.row.cell(column) != "" })
}

func (c *cellReader) rule() Rule {
	rw := c.row
	if text := rw.Collective; strings.ContainsAny(text, ";\t") && c.length() == 1 {
		c.r.fail(c.line, 0, fmt.Errorf("the row is one cell: %s (allowed: cells separated by commas)", suggest.Quote(text)))
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
	beyond := c.row.Beyond != ""
	if !beyond && c.row.cell(columns[len(columns)-1]) != "" {
		return
	}
	want := fmt.Sprintf("%d, as in the header", len(columns))
	if c.r.headerLine == 0 {
		want = fmt.Sprintf("%d to %d: %s; more columns need a header row", mandatoryColumns, headerlessColumns, strings.Join(columns, ","))
	}
	if beyond {
		c.r.fail(c.line, len(columns)+1, fmt.Errorf("a cell beyond the last column: %s (allowed: %s)", suggest.Quote(c.row.Beyond), want))
		return
	}
	for i, column := range columns {
		if c.row.cell(column) == "" && slices.Contains(columnNames[:mandatoryColumns], column) && c.length() <= i {
			c.r.fail(c.line, 0, fmt.Errorf("the row ends with cell %d, before %s (allowed: %s)", c.length(), column, want))
			return
		}
	}
}

// length returns how many cells the row has: an empty one means "any", a missing one may
// be an error. encoding/csv tells only by a panic, so it is asked about odd rows alone.
func (c *cellReader) length() (n int) {
	defer func() { recover() }()
	for ; n < len(c.r.columns); n++ {
		c.in.FieldPos(n)
	}
	return n
}

// isAny reports the spellings of "no restriction".
func isAny(text string) bool {
	switch text {
	case "", "-1", "*":
		return true
	}
	return strings.EqualFold(text, "any")
}

func (c *cellReader) coll(cl string) nccl.Coll {
	if isAny(cl) {
		return anyColl
	}
	if nccl.NeverAsked(cl) {
		return collNeverAsked
	}
	coll, ok := nccl.Colls.Named(cl)
	if !ok {
		c.fail("collective", nccl.Colls.Unknown(cl, ", -1 for any"))
	}
	return coll
}

func (c *cellReader) sizes(minName string, low string, maxName string, high string) Range {
	r := everySize
	var err error
	ok := true
	if !isAny(low) {
		if r.Min, err = nccl.ParseBytes(low); err != nil {
			c.fail(minName, fmt.Errorf("%s: %w", minName, err))
			ok = false
		}
	}
	if !isAny(high) && !strings.EqualFold(high, "inf") {
		if r.Max, err = nccl.ParseBytes(high); err != nil {
			c.fail(maxName, fmt.Errorf("%s: %w", maxName, err))
			ok = false
		}
	}
	if ok && r.Min > r.Max {
		c.fail(maxName, fmt.Errorf("%s %s is below %s %s: the row matches nothing", maxName, high, minName, low))
	}
	return r
}

// count reads a whole number from least to most, or anyInt.
func (c *cellReader) count(name string, cl string, least, most int64) int64 {
	if isAny(cl) {
		return anyInt
	}
	n, err := strconv.ParseInt(cl, 10, 64)
	if err != nil || n < least || n > most {
		upper := " or more"
		if most < 1<<30 {
			upper = fmt.Sprintf(" to %d", most)
		}
		c.fail(name, fmt.Errorf("%s is %s (allowed: %d%s, or -1 for any)", name, suggest.Quote(cl), least, upper))
		return anyInt
	}
	return n
}

func (c *cellReader) channels() int8 {
	cl := c.row.Channels
	if isAny(cl) || cl == "0" { // 0 is what NCCL itself calls its default
		return 0
	}
	n, err := strconv.Atoi(cl)
	if err != nil || n < 1 || n > maxChannelsInFile {
		c.fail("channels", fmt.Errorf("channels is %s (allowed: 1 to %d, or -1 for NCCL's own; up to %d is read as %d)",
			suggest.Quote(cl), nccl.MaxChannels, maxChannelsInFile, nccl.MaxChannels))
		return 0
	}
	return int8(min(n, nccl.MaxChannels))
}

func (c *cellReader) chunkBytes() uint64 {
	cl := c.row.ChunkBytes
	if isAny(cl) {
		return 0
	}
	n, err := nccl.ParseBytes(cl)
	if err == nil && n == 0 {
		err = errors.New("0 is no chunk size (allowed: 1 or more, or -1 for NCCL's own)")
	}
	if err != nil {
		c.fail("chunk_bytes", fmt.Errorf("chunk_bytes: %w", err))
	}
	return n
}

func (c *cellReader) when() *Condition {
	text := c.row.When
	if isAny(c.row.When) {
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
		set.algos = oneOrAllBut(c, "algorithm", cl, nccl.Algos, everyCell.algos, "default, ")
	}
	set.protos = oneOrAllBut(c, "protocol", c.row.Protocol, nccl.Protos, everyCell.protos, "")
	return set
}

// oneOrAllBut reads a name, a name to avoid ("!tree") or any, as a set of bits.
func oneOrAllBut[T ~int8, Set uint8 | uint16](c *cellReader, column string, cl string, known nccl.Names[T], every Set, also string) Set {
	if isAny(cl) {
		return every
	}
	name, avoid := strings.CutPrefix(cl, "!")
	v, ok := known.Named(strings.TrimSpace(name))
	if !ok {
		c.fail(column, known.Unknown(cl, fmt.Sprintf(", %s-1 for any, !%s to avoid one", also, known.Known[0])))
		return every
	}
	if avoid {
		return every &^ (1 << v)
	}
	return 1 << v
}

func isDefault(cl string) bool { return strings.EqualFold(cl, "default") }

// checkDefault: a row that leaves everything to NCCL cannot ask for something.
func (c *cellReader) checkDefault() {
	if !isDefault(c.row.Algorithm) {
		return
	}
	for _, other := range []struct {
		name string
		cell string
	}{{"protocol", c.row.Protocol}, {"channels", c.row.Channels}, {"chunk_bytes", c.row.ChunkBytes}} {
		if !isAny(other.cell) && !(other.name == "channels" && other.cell == "0") {
			c.fail(other.name, fmt.Errorf("%s is %s in a row with algorithm default, which leaves everything to NCCL (allowed: -1; or algorithm -1)",
				other.name, suggest.Quote(other.cell)))
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
