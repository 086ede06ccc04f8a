package policy

import (
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// column is one column of a policy file.
type column struct {
	name    string
	aliases []string // other names for it
	// read puts into the rule what a field says. A field that restricts nothing is not read: the rule
	// keeps what anyRule has. nil: nothing depends on the column.
	read   func(r *reader, text string, to *Rule) error
	asks   bool // for something; a row with algorithm default must not
	needed bool // a row must not end before it
}

// columns are all columns. Without a header a file has the first ten, in this order: the format of
// NCCL's example tuner and of RCCL.
var columns = []*column{
	{name: "collective", aliases: []string{"collective_type", "coll_type", "coll"}, read: readColl, needed: true},
	{name: "min_bytes", read: size("min_bytes", func(r *Rule) *uint64 { return &r.Bytes.Min }), needed: true},
	{name: "max_bytes", read: size("max_bytes", func(r *Rule) *uint64 { return &r.Bytes.Max }), needed: true},
	{name: "algorithm", aliases: []string{"algo"}, read: readAlgorithm, needed: true},
	{name: "protocol", aliases: []string{"proto"}, read: readProtocol, asks: true, needed: true},
	{name: "channels", aliases: []string{"n_channels"}, read: readChannels, asks: true, needed: true},
	{name: "nodes", aliases: []string{"n_nodes"}, read: Nodes.read, needed: true},
	{name: "ranks", aliases: []string{"n_ranks"}, read: Ranks.read, needed: true},
	{name: "pipe_ops", aliases: []string{"num_pipe_ops"}, read: PipeOps.read},
	{name: "reg_buff", read: RegBuff.read},
	{name: "ranks_per_node", read: RanksPerNode.read},
	{name: "min_bytes_per_rank", read: size("min_bytes_per_rank", leastPerRank)},
	{name: "max_bytes_per_rank", read: size("max_bytes_per_rank", mostPerRank)},
	{name: "nccl", aliases: []string{"nccl_release"}, read: readReleases},
	{name: "comm_name", read: readName},
	{name: "chunk_bytes", read: readChunkBytes, asks: true},
	{name: "when", read: readWhen},
	{name: "comment"},
}

func leastPerRank(r *Rule) *uint64 { return &r.BytesPerRank.Min }
func mostPerRank(r *Rule) *uint64  { return &r.BytesPerRank.Max }

const (
	headerlessColumns = 10
	beyondColumn      = "(beyond the last column)"
)

// unknownColumn stands for one that the header misspells.
var unknownColumn column

// columnBySpelling has every accepted spelling of a column's name, in lower case.
var columnBySpelling = func() map[string]*column {
	m := map[string]*column{}
	for _, c := range columns {
		for _, name := range append(c.aliases, c.name) {
			for _, s := range nccl.Spellings(name) {
				m[s] = c
			}
		}
	}
	return m
}()

// columnNamed returns the column that a header's field names; nil: none.
func columnNamed(field string) *column {
	return columnBySpelling[strings.ToLower(strings.TrimSpace(field))]
}

// header is the columns of a file, in its order.
type header []*column

// columnNumber returns which column of the file has that name, from 1; 0: none.
func (h header) columnNumber(name string) int {
	return 1 + slices.IndexFunc(h, func(c *column) bool { return c.name == name })
}

// names lists the names of columns.
func names(of []*column) []string {
	list := make([]string, len(of))
	for i, c := range of {
		list[i] = c.name
	}
	return list
}
