package policy

import (
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// row is one line of a policy file as text, which gocsv fills in.
type row struct {
	Collective      string `csv:"collective"`
	MinBytes        string `csv:"min_bytes"`
	MaxBytes        string `csv:"max_bytes"`
	Algorithm       string `csv:"algorithm"`
	Protocol        string `csv:"protocol"`
	Channels        string `csv:"channels"`
	Nodes           string `csv:"nodes"`
	Ranks           string `csv:"ranks"`
	PipeOps         string `csv:"pipe_ops"`
	RegBuff         string `csv:"reg_buff"`
	RanksPerNode    string `csv:"ranks_per_node"`
	MinBytesPerRank string `csv:"min_bytes_per_rank"`
	MaxBytesPerRank string `csv:"max_bytes_per_rank"`
	ChunkBytes      string `csv:"chunk_bytes"`
	When            string `csv:"when"`
	Comment         string `csv:"comment"`
	Beyond          string `csv:"(beyond the last column)"`
}

// column is one column of a policy file.
type column struct {
	name    string             // as in row
	field   func(*row) *string // its field of a row
	aliases []string           // other names for it
	// read puts into the rule what a field says. A field that restricts nothing is not read: the rule
	// keeps what anyRule has. nil: nothing depends on the column.
	read func(r *reader, text string, to *Rule) error
	asks bool // for something that algorithm default leaves to NCCL
}

// columns are all columns. Without a header a file has the first ten, in this order: the format of
// NCCL's example tuner and of RCCL.
var columns = []column{
	{name: "collective", field: func(rw *row) *string { return &rw.Collective }, aliases: []string{"collective_type", "coll_type", "coll"}, read: readColl},
	{name: "min_bytes", field: func(rw *row) *string { return &rw.MinBytes }, read: least("min_bytes", bytesOf)},
	{name: "max_bytes", field: func(rw *row) *string { return &rw.MaxBytes }, read: most("max_bytes", bytesOf)},
	{name: "algorithm", field: func(rw *row) *string { return &rw.Algorithm }, aliases: []string{"algo"}, read: readAlgorithm},
	{name: "protocol", field: func(rw *row) *string { return &rw.Protocol }, aliases: []string{"proto"}, read: readProtocol, asks: true},
	{name: "channels", field: func(rw *row) *string { return &rw.Channels }, aliases: []string{"n_channels"}, read: readChannels, asks: true},
	{name: "nodes", field: func(rw *row) *string { return &rw.Nodes }, aliases: []string{"n_nodes"}, read: Nodes.read},
	{name: "ranks", field: func(rw *row) *string { return &rw.Ranks }, aliases: []string{"n_ranks"}, read: Ranks.read},
	{name: "pipe_ops", field: func(rw *row) *string { return &rw.PipeOps }, aliases: []string{"num_pipe_ops"}, read: PipeOps.read},
	{name: "reg_buff", field: func(rw *row) *string { return &rw.RegBuff }, read: RegBuff.read},
	{name: "ranks_per_node", field: func(rw *row) *string { return &rw.RanksPerNode }, read: RanksPerNode.read},
	{name: "min_bytes_per_rank", field: func(rw *row) *string { return &rw.MinBytesPerRank }, read: least("min_bytes_per_rank", perRankOf)},
	{name: "max_bytes_per_rank", field: func(rw *row) *string { return &rw.MaxBytesPerRank }, read: most("max_bytes_per_rank", perRankOf)},
	{name: "chunk_bytes", field: func(rw *row) *string { return &rw.ChunkBytes }, read: readChunkBytes, asks: true},
	{name: "when", field: func(rw *row) *string { return &rw.When }, read: readWhen},
	{name: "comment", field: func(rw *row) *string { return &rw.Comment }},
}

const (
	headerlessColumns = 10
	mandatoryColumns  = 8 // of these: each row must have them
	beyondColumn      = "(beyond the last column)"
)

// unknownColumn stands for one that the header misspells. Its fields are empty.
var unknownColumn = column{field: func(*row) *string { return new(string) }}

// columnBySpelling has every accepted spelling of a column's name, in lower case.
var columnBySpelling = func() map[string]*column {
	m := map[string]*column{}
	for i := range columns {
		c := &columns[i]
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

// names lists the names of columns.
func names(of []*column) []string {
	list := make([]string, len(of))
	for i, c := range of {
		list[i] = c.name
	}
	return list
}

// firstColumns returns the first n of all columns.
func firstColumns(n int) []*column {
	list := make([]*column, n)
	for i := range list {
		list[i] = &columns[i]
	}
	return list
}
