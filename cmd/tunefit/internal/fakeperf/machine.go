package main

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// machine is what the times are from.
type machine interface {
	// table is NCCL's cost table for a size, as its variables leave it.
	table(bytes uint64) nccl.CostTable
	// choose is what NCCL chooses from a table; ok is false where that has nothing.
	choose(table nccl.CostTable, bytes uint64) (c nccl.Config, ok bool)
	// most is how many channels an algorithm has.
	most(nccl.Algo) int
	// micros is the time of a choice, which is NCCL's own or somebody else's; ok is false where the machine has none.
	micros(c nccl.Config, own bool, bytes uint64) (us float64, ok bool)
	// busy is how many of its channels NCCL's log shows of a choice.
	busy(c nccl.Config, bytes uint64) int
	String() string
}

func newMachine(s settings, coll nccl.Coll, nodes, ranks int, variables channels.Variables) (machine, error) {
	if len(s.grids) > 0 {
		return newGrid(s, coll, nodes, ranks, variables)
	}
	return newSimulated(s, coll, nodes, ranks, variables)
}

// decision is what runs for a size and how long it takes, but for noise.
type decision struct {
	nccl.Config
	micros float64
	own    bool // NCCL's choice, and its number of channels
}

// noneError is what NCCL fails with that has nothing to choose from.
type noneError struct{}

func (noneError) Error() string { return "no algorithm" }

// decide is what NCCL does with a call, and its tuner, if it has one.
func (t *test) decide(bytes uint64) (d decision, err error) {
	table := t.machine.table(bytes)
	own, ok := t.machine.choose(table, bytes)
	d = decision{Config: own, own: true}
	if t.tuner != nil {
		answer, err := t.tuner.ask(t.coll, bytes, table)
		if err != nil {
			return d, err
		}
		for _, l := range answer.Log {
			t.log.plugin(l)
		}
		for i, us := range answer.Table {
			table[i/nccl.NumProtos][i%nccl.NumProtos] = us
		}
		if d.Config, ok = t.machine.choose(table, bytes); ok && answer.Channels > 0 &&
			(answer.Channels < d.Channels || !t.settings.nccl.Has(nccl.ChannelsOnlyLower)) {
			d.Channels = min(answer.Channels, t.machine.most(d.Algo))
		}
		d.own = d.Config == own && answer.Channels == 0
	}
	if !ok {
		return d, noneError{}
	}
	if d.micros, ok = t.machine.micros(d.Config, d.own, bytes); !ok {
		return d, fmt.Errorf("%s has no time of %s/%s with %d channels at %d bytes", t.machine, d.Algo, d.Proto, d.Channels, bytes)
	}
	return d, nil
}
