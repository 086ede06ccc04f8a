package simulate

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Cluster is one collective on one communicator: what NCCL chooses there, and how long that takes without noise.
type Cluster interface {
	// Table is NCCL's cost table for a size, under NCCL's variables.
	Table(bytes uint64) nccl.CostTable
	// Choose is what NCCL chooses from a table. Its cell is not known if the table has nothing.
	Choose(table nccl.CostTable, bytes uint64) nccl.Config
	// Channels is how many an algorithm has.
	Channels(nccl.Algo) int
	// Micros is the time of a configuration; own says that NCCL chose it. ok is false if there is no time.
	Micros(c nccl.Config, own bool, bytes uint64) (us float64, ok bool)
	// Busy is how many of its channels NCCL's log shows of a configuration.
	Busy(c nccl.Config, bytes uint64) int
	String() string
}

// drawn is a cluster that the seed draws.
type drawn struct {
	coll       nccl.Coll
	seed       uint64
	now, plain *tuning.Tuning
	truth      *Truth
}

// Drawn is the cluster that a seed draws. now has NCCL's estimates under its variables, plain those without variables.
func Drawn(coll nccl.Coll, seed uint64, now, plain *tuning.Tuning) Cluster {
	return &drawn{coll, seed, now, plain, NewTruth(plain, seed)}
}

func (d *drawn) String() string { return fmt.Sprintf("the simulator, seed %d", d.seed) }

func (d *drawn) Table(bytes uint64) nccl.CostTable { return d.now.Table(d.coll, int64(bytes), 1) }

func (d *drawn) Choose(table nccl.CostTable, bytes uint64) nccl.Config {
	return d.now.ChooseFrom(table, int64(bytes)).Config
}

func (d *drawn) Channels(a nccl.Algo) int { return d.now.Channels(a) }

// Micros ignores channels beyond those of the machine, which variables may add. A cell that only variables allow takes
// as long as NCCL expects.
func (d *drawn) Micros(c nccl.Config, _ bool, bytes uint64) (float64, bool) {
	c.Channels = min(c.Channels, d.plain.Channels(c.Algo))
	if us, ok := d.truth.Micros(d.coll, c, bytes); ok {
		return us, true
	}
	expected := float64(d.Table(bytes)[c.Algo][c.Proto])
	return expected, expected >= 0
}

func (d *drawn) Busy(c nccl.Config, bytes uint64) int { return Busy(d.coll, c.Channels, bytes) }
