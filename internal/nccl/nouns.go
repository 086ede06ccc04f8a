package nccl

import (
	"cmp"
	"fmt"
)

// Comm is the shape of a communicator.
type Comm struct {
	Nodes int `json:"nodes"` // at least 1; 0: not known
	Ranks int `json:"ranks"` // of all nodes together, at least Nodes; 0: not known
}

// Compare orders communicators by nodes, then ranks.
func (c Comm) Compare(o Comm) int {
	return cmp.Or(cmp.Compare(c.Nodes, o.Nodes), cmp.Compare(c.Ranks, o.Ranks))
}

// String is 2x8: nodes and the ranks on each. It is words where the nodes differ in that.
func (c Comm) String() string {
	if c.Nodes == 0 || c.Ranks%c.Nodes != 0 {
		return fmt.Sprintf("%d ranks on %d nodes", c.Ranks, c.Nodes)
	}
	return fmt.Sprintf("%dx%d", c.Nodes, c.Ranks/c.Nodes)
}

// Call is what NCCL asks a tuner about.
type Call struct {
	Coll Coll `json:"collective"`
	// Bytes is nccl-tests' size column: the element size times the larger of send and receive count. An AllGather
	// and a ReduceScatter count all ranks.
	Bytes uint64 `json:"bytes"`
}

// Cell is a place in NCCL's cost table.
type Cell struct {
	Algo  Algo  `json:"algorithm"`
	Proto Proto `json:"protocol"`
}

// NoCell is the cell that nobody knows, or the choice of an NCCL that has nothing to choose from.
var NoCell = Cell{-1, -1}

// Known reports whether both the algorithm and the protocol are.
func (c Cell) Known() bool { return c.Algo >= 0 && c.Proto >= 0 }

// Compare orders cells as the cost table has them.
func (c Cell) Compare(o Cell) int {
	return cmp.Or(cmp.Compare(c.Algo, o.Algo), cmp.Compare(c.Proto, o.Proto))
}

// String is ring/ll128; "-" for NoCell.
func (c Cell) String() string {
	if !c.Known() {
		return "-"
	}
	return c.Algo.String() + "/" + c.Proto.String()
}

// Config is a configuration of a collective.
type Config struct {
	Cell
	Channels int `json:"channels"` // 0: NCCL's own number, or not known
}

// Compare orders configurations by cell, then channels.
func (c Config) Compare(o Config) int {
	return cmp.Or(c.Cell.Compare(o.Cell), cmp.Compare(c.Channels, o.Channels))
}

// String is "ring/ll128 16 ch", without the channels where they are NCCL's own.
func (c Config) String() string {
	if c.Channels == 0 {
		return c.Cell.String()
	}
	return fmt.Sprintf("%s %d ch", c.Cell, c.Channels)
}

// Label is ring/ll128/16, for columns; a "?" where nothing tells the configuration.
func (c Config) Label() string {
	switch {
	case !c.Known():
		return "?"
	case c.Channels == 0:
		return c.Cell.String()
	}
	return fmt.Sprintf("%s/%d", c.Cell, c.Channels)
}
