package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/simulate"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// newCluster returns the source of the times: the sweeps that FAKEPERF_GRID names, or the simulator.
func newCluster(s settings, coll nccl.Coll, comm nccl.Comm, variables channels.Variables) (simulate.Cluster, error) {
	if len(s.grids) > 0 {
		g, err := simulate.Measured(s.grids, coll, comm, variables)
		if err != nil {
			return nil, fmt.Errorf("FAKEPERF_GRID: %w", err)
		}
		return g, nil
	}
	doc, err := topo.Read("dgx-h100.xml", strings.NewReader(configs.DGXH100))
	if err != nil {
		return nil, err
	}
	tune := func(v channels.Variables) (*tuning.Tuning, error) {
		o := channels.TuneOptions{Settings: topo.SettingsFromEnv(os.Getenv), Variables: v}
		o.NCCL = s.nccl.Rules()
		all, err := channels.Tune(doc, o, comm.Nodes)
		if err != nil {
			return nil, err
		}
		// Nodes with fewer ranks than the machine has GPUs have the channels of the whole machine here.
		t := *all[0].Tuning
		t.Comm, t.MaxLocalRanks, t.MinLocalRanks = comm, 0, 0
		return &t, nil
	}
	now, err := tune(variables)
	if err != nil {
		return nil, err
	}
	plain := now
	if variables != (channels.Variables{}) {
		if plain, err = tune(channels.Variables{}); err != nil {
			return nil, err
		}
	}
	return simulate.Drawn(coll, clusterSeed, now, plain), nil
}

// decision is the configuration for a size, and how long it takes without noise.
type decision struct {
	nccl.Config
	micros float64
}

// errNone is what NCCL fails with if it has nothing to choose from.
var errNone = errors.New("no algorithm")

// decide chooses as NCCL does, with its tuner if there is one.
func (t *test) decide(bytes uint64) (d decision, err error) {
	table := t.cluster.Table(bytes)
	own := t.cluster.Choose(table, bytes)
	d.Config = own
	isOwn := true
	if t.tuner != nil {
		if t.settings.rccl && t.world.nodes() == 1 && own.Algo == nccl.AlgoTree && own.Proto == nccl.ProtoLL {
			table[own.Algo][own.Proto] = dearest(table) // a loaded tuner keeps it from this choice, on gfx950
		}
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
		if d.Config = t.cluster.Choose(table, bytes); d.Known() && answer.Channels > 0 &&
			(answer.Channels < d.Channels || !t.settings.nccl.Has(nccl.ChannelsOnlyLower)) {
			d.Channels = min(answer.Channels, t.cluster.Channels(d.Algo))
		}
		isOwn = d.Config == own && answer.Channels == 0
	}
	if !d.Known() {
		return d, errNone
	}
	var ok bool
	if d.micros, ok = t.cluster.Micros(d.Config, isOwn, bytes); !ok {
		return d, fmt.Errorf("%s has no time of %s with %d channels at %d bytes", t.cluster, d.Cell, d.Channels, bytes)
	}
	return d, nil
}

// dearest is twice the largest cost of a table.
func dearest(table nccl.CostTable) (most float32) {
	for _, row := range table {
		most = max(most, slices.Max(row[:]))
	}
	return 2 * most
}
