package main

// NCCL derives its estimates after a tuner has replaced constants of them.

import (
	"fmt"
	"io"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/plugin/host"
)

// tuning is NCCL's cost model of a communicator, with the constants that the plugin
// has written for it.
func (a *asker) tuning(d decider, s shape) (*tuning.Tuning, error) {
	comm, err := a.comm(d, s)
	if err != nil {
		return nil, err
	}
	if len(comm.Constants) == 0 {
		return a.costs.of(s)
	}
	key := fmt.Sprint(comm.Constants)
	if a.own[key] == nil {
		if a.costs, a.own[key], err = a.from.with(comm.Constants, a.costs); err != nil {
			return nil, err
		}
	}
	return a.own[key].of(s)
}

// with returns the costs as they are with constants that a tuner replaces, and those
// to compare them with. Where they come from a file of latencies and bandwidths,
// what becomes of these by other constants is not known, and nothing changes.
func (f *costFlags) with(constants []host.Constant, m *costModel) (alone, own *costModel, err error) {
	if f.tuning != "" {
		m.ignored = len(constants)
		return m, m, nil
	}
	alone = m
	if m.machine == nil { // the default is the outcome for a machine whose topology is here, too
		machine, err := hgxH100()
		if err != nil {
			return nil, nil, err
		}
		alone = m.anew(machine)
	}
	own = alone.anew(alone.machine)
	for _, c := range constants {
		own.options.Replaced = append(own.options.Replaced, channels.Constant(c))
	}
	return alone, own, nil
}

// anew is for the same system and derives all that it is asked for.
func (m *costModel) anew(machine *topo.Document) *costModel {
	return &costModel{machine: machine, options: m.options, nccl: m.nccl, standIns: m.standIns, notes: m.notes, set: &tuning.Set{System: m.set.System, NCCL: m.set.NCCL}}
}

// noteIgnored says that the costs are not those that NCCL has with the constants of the tuner.
func (m *costModel) noteIgnored(w io.Writer) {
	if m.ignored > 0 {
		fmt.Fprintf(w, "note: the tuner replaces %s of NCCL's; what NCCL chooses by itself is shown without, as a file of latencies and bandwidths has no topology to derive it from\n", countOf(m.ignored, "constant"))
	}
}

// writes reports whether the constants written are those that are to be replaced.
func writes(written []host.Constant, replaced []model.Constant, version nccl.Version) bool {
	want := map[host.Constant]bool{}
	for _, c := range replaced {
		want[host.Constant{Table: int(c.Table), Index: c.Index, Value: c.Value}] = true
	}
	delete(want, host.RingLL128(version)) // NCCL's own value, which does not show as written
	return len(written) == len(want) && !slices.ContainsFunc(written, func(c host.Constant) bool { return !want[c] })
}
