package policy

import (
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// column is one column of a policy file.
type column struct {
	name    string
	aliases []string          // other names for it
	of      func(*row) *field // the row's field
	// read puts into the rule what a field says. A field that restricts nothing is not read: the rule
	// keeps what anyRule has. nil: nothing depends on the column.
	read   func(r *reader, text string, to *Rule) error
	asks   bool // for something; a row with algorithm default must not
	needed bool // a row must not end before it
}

// row is what gocsv decodes a row into. A file has some of these columns, in any order.
type row struct {
	Collective      field `csv:"collective"`
	MinBytes        field `csv:"min_bytes"`
	MaxBytes        field `csv:"max_bytes"`
	Algorithm       field `csv:"algorithm"`
	Protocol        field `csv:"protocol"`
	Channels        field `csv:"channels"`
	Nodes           field `csv:"nodes"`
	Ranks           field `csv:"ranks"`
	PipeOps         field `csv:"pipe_ops"`
	RegBuff         field `csv:"reg_buff"`
	RanksPerNode    field `csv:"ranks_per_node"`
	MinBytesPerRank field `csv:"min_bytes_per_rank"`
	MaxBytesPerRank field `csv:"max_bytes_per_rank"`
	NCCL            field `csv:"nccl"`
	CommName        field `csv:"comm_name"`
	ChunkBytes      field `csv:"chunk_bytes"`
	When            field `csv:"when"`
	Comment         field `csv:"comment"`

	// NCCLX's, see ncclxColumns
	BytesPerRank field `csv:"bytesPerRank"`
	NNodes       field `csv:"nNodes"`
	NLocalRanks  field `csv:"nLocalRanks"`
	ChunkSize    field `csv:"chunkSize"`

	Beyond field `csv:"(beyond the last column)"` // see beyondColumn
}

// field is what stands in one column of a row, without white space around it.
type field struct {
	text  string
	given bool // an empty field means "any", a missing one may be an error
}

// UnmarshalCSV implements gocsv.TypeUnmarshaller.
func (f *field) UnmarshalCSV(text string) error {
	*f = field{strings.TrimSpace(text), true}
	return nil
}

// columns are all columns. Without a header a file has the first ten, in this order: the format of
// NCCL's example tuner and of RCCL.
var columns = []*column{
	{name: "collective", aliases: []string{"collective_type", "coll_type", "coll"}, needed: true,
		of: func(r *row) *field { return &r.Collective }, read: readColl},
	{name: "min_bytes", needed: true, of: func(r *row) *field { return &r.MinBytes },
		read: size("min_bytes", func(r *Rule) *uint64 { return &r.Bytes.Min })},
	{name: "max_bytes", needed: true, of: func(r *row) *field { return &r.MaxBytes },
		read: size("max_bytes", func(r *Rule) *uint64 { return &r.Bytes.Max })},
	{name: "algorithm", aliases: []string{"algo"}, needed: true,
		of: func(r *row) *field { return &r.Algorithm }, read: readAlgorithm},
	{name: "protocol", aliases: []string{"proto"}, asks: true, needed: true,
		of: func(r *row) *field { return &r.Protocol }, read: readProtocol},
	{name: "channels", aliases: []string{"n_channels"}, asks: true, needed: true,
		of: func(r *row) *field { return &r.Channels }, read: readChannels},
	{name: "nodes", aliases: []string{"n_nodes"}, needed: true,
		of: func(r *row) *field { return &r.Nodes }, read: Nodes.read},
	{name: "ranks", aliases: []string{"n_ranks"}, needed: true,
		of: func(r *row) *field { return &r.Ranks }, read: Ranks.read},
	{name: "pipe_ops", aliases: []string{"num_pipe_ops"},
		of: func(r *row) *field { return &r.PipeOps }, read: PipeOps.read},
	{name: "reg_buff", of: func(r *row) *field { return &r.RegBuff }, read: RegBuff.read},
	{name: "ranks_per_node", of: func(r *row) *field { return &r.RanksPerNode }, read: RanksPerNode.read},
	{name: "min_bytes_per_rank", of: func(r *row) *field { return &r.MinBytesPerRank },
		read: size("min_bytes_per_rank", func(r *Rule) *uint64 { return &r.BytesPerRank.Min })},
	{name: "max_bytes_per_rank", of: func(r *row) *field { return &r.MaxBytesPerRank },
		read: size("max_bytes_per_rank", func(r *Rule) *uint64 { return &r.BytesPerRank.Max })},
	{name: "nccl", aliases: []string{"nccl_release"}, of: func(r *row) *field { return &r.NCCL }, read: readReleases},
	{name: "comm_name", of: func(r *row) *field { return &r.CommName }, read: readName},
	{name: "chunk_bytes", asks: true, of: func(r *row) *field { return &r.ChunkBytes }, read: readChunkBytes},
	{name: "when", of: func(r *row) *field { return &r.When }, read: readWhen},
	{name: "comment", of: func(r *row) *field { return &r.Comment }},
}

const (
	headerlessColumns = 10
	beyondColumn      = "(beyond the last column)"
)

// unknownColumn stands for one that the header misspells.
var unknownColumn = column{of: func(*row) *field { return &field{} }}

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
