package fit

import (
	"cmp"
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Key names a group: what NCCL decides about separately, and what no model
// crosses.
type Key struct {
	Coll  nccl.Coll
	Nodes int // >= 1
	Ranks int // of all nodes together, >= 1
}

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Coll, o.Coll), cmp.Compare(k.Nodes, o.Nodes), cmp.Compare(k.Ranks, o.Ranks))
}

func (k Key) String() string {
	if k.Ranks%k.Nodes != 0 {
		return fmt.Sprintf("%s, %d ranks on %d nodes", k.Coll, k.Ranks, k.Nodes)
	}
	return fmt.Sprintf("%s %dx%d", k.Coll, k.Nodes, k.Ranks/k.Nodes)
}

// FamilyKey is an algorithm with a protocol: a cell of NCCL's cost table.
type FamilyKey struct {
	Algo  nccl.Algo
	Proto nccl.Proto
}

func (f FamilyKey) compare(o FamilyKey) int {
	return cmp.Or(cmp.Compare(f.Algo, o.Algo), cmp.Compare(f.Proto, o.Proto))
}

func (f FamilyKey) String() string { return f.Algo.String() + "/" + f.Proto.String() }

// Config is what can be chosen for a collective.
type Config struct {
	FamilyKey
	Channels int // 0: NCCL's own count, whatever that is
}

func (c Config) compare(o Config) int {
	return cmp.Or(c.FamilyKey.compare(o.FamilyKey), cmp.Compare(c.Channels, o.Channels))
}

func (c Config) String() string {
	if c.Channels == 0 {
		return c.FamilyKey.String()
	}
	return fmt.Sprintf("%s %d ch", c.FamilyKey, c.Channels)
}
