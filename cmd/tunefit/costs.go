package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// costFlags name what NCCL's own choice comes from.
type costFlags struct{ tuning, topo string }

func (f *costFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.topo, "topo", "", "topology file of your machine, NCCL's XML: what NCCL would choose is reckoned for this machine (default: an HGX H100)")
	cmd.Flags().StringVar(&f.tuning, "tuning", "", "file of NCCL's latencies and bandwidths on your machine, JSON: what NCCL would choose is reckoned with them (default: those of an HGX H100)")
}

// costModel is NCCL's cost model for communicators of one machine.
type costModel struct {
	set     *tuning.Set
	machine *topo.Document // to derive more of the set from; nil without
	options channels.TuneOptions
	ignored int // constants that a tuner replaces and that the set does not know
	// standIns notes communicators whose costs are those of another size.
	standIns map[shape]shape
}

// getenv is the environment in which the tuner looks for the machine.
func (f *costFlags) getenv(name string) string {
	if name == detect.TunerFileVariable && f.topo != "" {
		if path, err := pathOf(f.topo); err == nil {
			return path
		}
		return f.topo
	}
	return os.Getenv(name)
}

func (f *costFlags) read() (*costModel, error) {
	m := &costModel{standIns: map[shape]shape{}}
	var err error
	if f.topo != "" {
		if f.tuning != "" {
			return nil, usagef("--topo and --tuning exclude each other")
		}
		if m.machine, err = readTopology(f.topo); err != nil {
			return nil, err
		}
		m.set = &tuning.Set{System: f.topo, NCCL: "2.30.7"}
		m.options = channels.TuneOptions{Build: buildOptions(), Settings: topo.SettingsFromEnv(os.Getenv)}
		return m, m.derive(1)
	}
	if f.tuning == "" {
		m.set, err = tuning.Read(strings.NewReader(configs.HGXH100), "hgx-h100.json")
		return m, err
	}
	text, err := readInput(f.tuning, kindTuning)
	if err != nil {
		return nil, err
	}
	m.set, err = tuning.Read(bytes.NewReader(text), f.tuning)
	return m, err
}

// derive adds NCCL's costs over so many hosts like the one described.
func (m *costModel) derive(hosts ...int) error {
	comms, err := channels.Tune(m.machine, m.options, hosts...)
	if err != nil {
		return err
	}
	for _, c := range comms {
		if t := c.Tuning; m.set.For(t.NNodes, t.NRanks) == nil {
			m.set.Tunings = append(m.set.Tunings, t)
		}
	}
	return nil
}

// of returns the model of a communicator. Where there is none of its size, the
// one with the nearest number of nodes stands in.
func (m *costModel) of(s shape) (*tuning.Tuning, error) {
	if m.machine != nil && m.set.For(s.nodes, 0) == nil {
		if err := m.derive(s.nodes); err != nil {
			return nil, err
		}
	}
	if t := m.set.For(s.nodes, s.ranks); t != nil {
		return t, nil
	}
	distance := func(t *tuning.Tuning) float64 {
		far := max(float64(t.NNodes)/float64(s.nodes), float64(s.nodes)/float64(t.NNodes))
		if (t.NNodes == 1) != (s.nodes == 1) {
			far += 1000 // one node and several have little in common
		}
		return far
	}
	best := slices.MinFunc(m.set.Tunings, func(x, y *tuning.Tuning) int {
		switch dx, dy := distance(x), distance(y); {
		case dx < dy:
			return -1
		case dx > dy:
			return 1
		}
		return 0
	})
	m.standIns[s] = shape{nodes: best.NNodes, ranks: best.NRanks}
	return best, nil
}

// source names the cost model, with the release and the machine that it is of.
func (m *costModel) source() string {
	return fmt.Sprintf("NCCL %s's cost model for %s", m.set.NCCL, m.system())
}

// system names the machine that the costs are of.
func (m *costModel) system() string {
	system, _, _ := strings.Cut(m.set.System, ":")
	return system
}

// noteStandIns says where the costs are not those of the communicator shown.
func (m *costModel) noteStandIns(w io.Writer, shown []shape) {
	system := m.system()
	for _, s := range shown {
		if by, ok := m.standIns[s]; ok {
			fmt.Fprintf(w, "note: no NCCL costs of %s for %s; those for %s stand in\n", system, s, by)
		}
	}
}
