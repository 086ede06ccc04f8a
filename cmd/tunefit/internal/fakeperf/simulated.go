package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/simulate"
	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// simulated is a cluster that the seed draws: bench/simulate has its times, topo what NCCL makes of it.
type simulated struct {
	coll  nccl.Coll
	seed  uint64
	now   *tuning.Tuning // with NCCL's variables
	plain *tuning.Tuning // without
	truth *simulate.Truth
}

func newSimulated(s settings, coll nccl.Coll, nodes, ranks int, variables channels.Variables) (machine, error) {
	name, text := "dgx-h100.xml", configs.DGXH100
	if s.topo != "" {
		file, err := os.ReadFile(s.topo)
		if err != nil {
			return nil, err
		}
		name, text = s.topo, string(file)
	}
	doc, err := topo.Read(name, strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	tune := func(v channels.Variables) (*tuning.Tuning, error) {
		o := channels.TuneOptions{Settings: topo.SettingsFromEnv(os.Getenv), Variables: v}
		o.NCCL = s.nccl.Rules()
		all, err := channels.Tune(doc, o, nodes)
		if err != nil {
			return nil, err
		}
		// Nodes with fewer ranks than the machine has GPUs have the channels of the whole machine here.
		t := *all[0].Tuning
		t.Comm, t.MaxLocalRanks, t.MinLocalRanks = nccl.Comm{Nodes: nodes, Ranks: ranks}, 0, 0
		return &t, nil
	}
	m := &simulated{coll: coll, seed: s.seed}
	if m.now, err = tune(variables); err != nil {
		return nil, err
	}
	if m.plain = m.now; variables != (channels.Variables{}) {
		if m.plain, err = tune(channels.Variables{}); err != nil {
			return nil, err
		}
	}
	m.truth = simulate.NewTruth(m.plain, s.seed)
	return m, nil
}

func (m *simulated) String() string { return fmt.Sprintf("the simulator, seed %d", m.seed) }

func (m *simulated) table(bytes uint64) nccl.CostTable { return m.now.Table(m.coll, int64(bytes), 1) }

func (m *simulated) choose(table nccl.CostTable, bytes uint64) (nccl.Config, bool) {
	c := m.now.ChooseFrom(table, int64(bytes))
	return c.Config, c.Algo >= 0
}

func (m *simulated) most(a nccl.Algo) int { return m.now.Channels(a) }

// micros takes channels beyond those of the machine, which variables may add, to be of no use. A cell that only variables
// allow takes as long as NCCL expects.
func (m *simulated) micros(c nccl.Config, _ bool, bytes uint64) (float64, bool) {
	us, ok := m.truth.Micros(m.coll, c.Algo, c.Proto, min(c.Channels, m.plain.Channels(c.Algo)), bytes)
	if !ok {
		table := m.table(bytes)
		us, ok = float64(table[c.Algo][c.Proto]), table[c.Algo][c.Proto] >= 0
	}
	return us, ok
}

func (m *simulated) busy(c nccl.Config, bytes uint64) int {
	return simulate.Busy(m.coll, c.Channels, bytes)
}
