package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
)

// maxChannelsInFile is the largest number that fits in NCCL's eight signed bits. Files written for RCCL ask
// for more than NCCL can use.
const maxChannelsInFile = 127

// fieldReader turns one row into a Rule and reports each field that it cannot read.
type fieldReader struct {
	r    *reader
	line int
	row  *row
}

func (c *fieldReader) fail(column string, err error) {
	c.r.fail(c.line, c.r.columnNumber(column), err)
}

func (c *fieldReader) readRule(rule *Rule) {
	if text := c.row.Collective.text; strings.ContainsAny(text, ";\t") && c.length() == 1 {
		c.r.fail(c.line, 0, fmt.Errorf("the row is one field: %s (allowed: fields separated by commas)",
			wording.Quote(text)))
		return
	}
	c.checkLength()
	*rule = anyRule
	rule.Line = c.line
	isDefault := strings.EqualFold(c.row.Algorithm.text, "default")
	for i, col := range c.r.header {
		text := col.of(c.row).text
		if col.read == nil || isAny(text) {
			continue
		}
		if err := col.read(c.r, text, rule); err != nil {
			c.r.fail(c.line, i+1, err)
		} else if isDefault && col.asks && text != "0" {
			c.r.fail(c.line, i+1,
				fmt.Errorf("%s is %s in a row with algorithm default, which leaves everything to NCCL (allowed: -1; "+
					"or algorithm -1)",
					col.name, wording.Quote(text)))
		}
	}
	c.checkSizes(rule.Bytes, "min_bytes", "max_bytes")
	c.checkSizes(rule.BytesPerRank, "min_bytes_per_rank", "max_bytes_per_rank")
	c.checkCommunicator(rule)
}

// checkLength accepts a row that leaves out its last fields as long as NCCL's own format lets it.
func (c *fieldReader) checkLength() {
	inFile := c.r.header
	beyond := c.row.Beyond.text
	if beyond == "" && inFile[len(inFile)-1].of(c.row).text != "" {
		return
	}
	want := fmt.Sprintf("%d, as in the header", len(inFile))
	if c.r.headerLine == 0 {
		needed := slices.IndexFunc(inFile, func(col *column) bool { return !col.needed })
		want = fmt.Sprintf("%d to %d: %s", needed, len(inFile), strings.Join(names(inFile), ","))
		if len(inFile) == headerlessColumns {
			want += "; more columns need a header row"
		}
	}
	if beyond != "" {
		c.r.fail(c.line, len(inFile)+1, fmt.Errorf("a field beyond the last column: %s (allowed: %s)",
			wording.Quote(beyond), want))
		return
	}
	length := c.length()
	for _, col := range inFile[length:] {
		if col.needed {
			c.r.fail(c.line, 0, fmt.Errorf("the row ends with field %d, before %s (allowed: %s)", length, col.name,
				want))
			return
		}
	}
}

// length returns how many fields the row has.
func (c *fieldReader) length() int {
	n := len(c.r.header)
	for n > 0 && !c.r.header[n-1].of(c.row).given {
		n--
	}
	return n
}

// blank reports a row in which nothing stands.
func (c *fieldReader) blank() bool {
	return c.row.Beyond.text == "" &&
		!slices.ContainsFunc(c.r.header, func(col *column) bool { return col.of(c.row).text != "" })
}

// isAny reports the spellings of "no restriction".
func isAny(text string) bool {
	switch text {
	case "", "-1", "*":
		return true
	}
	return strings.EqualFold(text, "any")
}

func readColl(_ *reader, text string, to *Rule) error {
	if nccl.NeverAsked(text) {
		to.Coll = collNeverAsked
		return nil
	}
	coll, ok := nccl.Colls.Named(text)
	if !ok {
		return nccl.Colls.Unknown(text, ", -1 for any")
	}
	to.Coll = coll
	return nil
}

// size reads one end of a range of sizes. As the upper end, "inf" means no limit.
func size(name string, end func(*Rule) *uint64) func(*reader, string, *Rule) error {
	return func(_ *reader, text string, to *Rule) error {
		if strings.EqualFold(text, "inf") && *end(to) == nccl.Inf {
			return nil
		}
		return readSize(name, text, end(to))
	}
}

// readSize changes size only if the text is a size.
func readSize(name, text string, size *uint64) error {
	n, err := nccl.ParseBytes(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*size = n
	return nil
}

func (c *fieldReader) checkSizes(r nccl.Range, least, most string) {
	if r.Min > r.Max {
		c.fail(most, fmt.Errorf("%s %s is below %s %s: the row matches nothing", most, nccl.FormatBytes(r.Max), least,
			nccl.FormatBytes(r.Min)))
	}
}

func (n Number) read(_ *reader, text string, to *Rule) error {
	about := &numbers[n]
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < about.least || value > about.most {
		return fmt.Errorf("%s is %s (allowed: %d to %d, or -1 for any)", about.name, wording.Quote(text),
			about.least, about.most)
	}
	to.Numbers[n] = int32(value)
	return nil
}

func readChannels(_ *reader, text string, to *Rule) error {
	if text == "0" { // what NCCL itself calls its default
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxChannelsInFile {
		return fmt.Errorf("channels is %s (allowed: 1 to %d, or -1 for NCCL's default; up to %d is read as %d)",
			wording.Quote(text), nccl.MaxChannels, maxChannelsInFile, nccl.MaxChannels)
	}
	to.Channels = int8(min(n, nccl.MaxChannels))
	return nil
}

func readChunkBytes(_ *reader, text string, to *Rule) error {
	err := readSize("chunk_bytes", text, &to.ChunkBytes)
	if err == nil && to.ChunkBytes == 0 {
		err = errors.New("chunk_bytes is 0 (allowed: 1 or more, or -1 for NCCL's default)")
	}
	return err
}

func readReleases(_ *reader, text string, to *Rule) error {
	r, err := nccl.ParseReleases(text)
	if err != nil {
		return fmt.Errorf("nccl: %w", err)
	}
	to.NCCL = r
	return nil
}

// maxName is the length of the longest name that the library passes on, in bytes.
const maxName = 255

func readName(_ *reader, text string, to *Rule) error {
	if i := strings.IndexByte(text, '*'); i >= 0 && i < len(text)-1 || len(text) > maxName {
		return fmt.Errorf("comm_name is %s (allowed: a name of up to %d bytes, or its beginning and one *)",
			wording.Quote(text), maxName)
	}
	to.Name = text
	return nil
}

func readWhen(r *reader, text string, to *Rule) (err error) {
	if to.When = r.conditions[text]; to.When == nil {
		to.When, err = when.Compile(text)
		r.conditions[text] = to.When
	}
	return err
}

func readAlgorithm(_ *reader, text string, to *Rule) (err error) {
	if !strings.EqualFold(text, "default") {
		to.Cells.algos, err = oneOrAllBut(text, nccl.Algos, everyCell.algos, "default, ")
	}
	return err
}

func readProtocol(_ *reader, text string, to *Rule) (err error) {
	to.Cells.protos, err = oneOrAllBut(text, nccl.Protos, everyCell.protos, "")
	return err
}

// oneOrAllBut reads a name, or a name to avoid ("!tree"), as a set of bits.
func oneOrAllBut[T ~int8, Set uint8 | uint16](text string, known nccl.Names[T], every Set, also string) (Set, error) {
	name, avoid := strings.CutPrefix(text, "!")
	v, ok := known.Named(strings.TrimSpace(name))
	if !ok {
		return every, known.Unknown(text, fmt.Sprintf(", %s-1 for any, !%s to avoid one", also, known.Known[0]))
	}
	if avoid {
		return every &^ (1 << v), nil
	}
	return 1 << v, nil
}

// checkCommunicator refuses a row that no communicator can match, because its nodes, ranks and ranks per node
// do not fit together.
func (c *fieldReader) checkCommunicator(r *Rule) {
	const none = "the row matches nothing"
	nodes, ranks, perNode := r.Numbers[Nodes], r.Numbers[Ranks], r.Numbers[RanksPerNode]
	switch {
	case nodes > 0 && ranks > 0 && nodes > ranks:
		c.fail("ranks", fmt.Errorf("%d ranks on %d nodes: %s", ranks, nodes, none))
	case perNode > 0 && ranks > 0 && ranks%perNode != 0,
		perNode > 0 && ranks > 0 && nodes > 0 && int64(nodes)*int64(perNode) != int64(ranks):
		c.fail("ranks_per_node", fmt.Errorf("%d ranks per node do not fit %d ranks: %s", perNode, ranks, none))
	}
}
