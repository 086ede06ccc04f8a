package nccl

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
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

// String is 2x8: nodes and the ranks on each. It is "20 ranks on 3 nodes" if the nodes differ in that.
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

// NoCell stands for a cell that is not known, and for NCCL's choice if it has nothing to choose from.
var NoCell = Cell{-1, -1}

// ParseCell reads the names of an algorithm and a protocol.
func ParseCell(algo, proto string) (c Cell, err error) {
	if c.Algo, err = Algos.Parse(algo); err != nil {
		return NoCell, err
	}
	if c.Proto, err = Protos.Parse(proto); err != nil {
		return NoCell, err
	}
	return c, nil
}

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

// ParseConfig reads ALGORITHM/PROTOCOL, for 0 channels, or ALGORITHM/PROTOCOL/CHANNELS.
func ParseConfig(text string) (c Config, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return c, fmt.Errorf("%s: not ALGORITHM/PROTOCOL or ALGORITHM/PROTOCOL/CHANNELS", wording.Quote(text))
	}
	if c.Cell, err = ParseCell(parts[0], parts[1]); err != nil {
		return c, fmt.Errorf("%s: %w", wording.Quote(text), err)
	}
	if len(parts) == 3 {
		c.Channels, err = strconv.Atoi(parts[2])
		if err != nil || c.Channels < 1 || c.Channels > MaxChannels {
			return c, fmt.Errorf("%s: channels are %s (allowed: 1 to %d)", wording.Quote(text),
				wording.Quote(parts[2]), MaxChannels)
		}
	}
	return c, nil
}

// Compare orders configurations by cell, then channels.
func (c Config) Compare(o Config) int {
	return cmp.Or(c.Cell.Compare(o.Cell), cmp.Compare(c.Channels, o.Channels))
}

// Admits reports whether another configuration is this one, of any number of channels where this one has none.
func (c Config) Admits(o Config) bool {
	return c.Cell == o.Cell && (c.Channels == 0 || c.Channels == o.Channels)
}

// String is "ring/ll128 16 ch", without the channels where they are NCCL's own.
func (c Config) String() string {
	if c.Channels == 0 {
		return c.Cell.String()
	}
	return fmt.Sprintf("%s %d ch", c.Cell, c.Channels)
}

// Label is ring/ll128/16, for columns; a "?" if it is not known.
func (c Config) Label() string {
	switch {
	case !c.Known():
		return "?"
	case c.Channels == 0:
		return c.Cell.String()
	}
	return fmt.Sprintf("%s/%d", c.Cell, c.Channels)
}
