package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/doctor"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/grid"
	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/plugin/host"
)

// costFlags name what NCCL's own choice comes from.
type costFlags struct{ tuning, topo, nccl string }

func (f *costFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.topo, "topo", "", "topology file of your machine, NCCL's XML: what NCCL would choose is reckoned for this machine (default: an HGX H100)")
	cmd.Flags().StringVar(&f.tuning, "tuning", "", "file of NCCL's latencies and bandwidths on your machine, JSON: what NCCL would choose is reckoned with them (default: those of an HGX H100)")
	cmd.Flags().StringVar(&f.nccl, "nccl", "", ncclUsage)
}

// costModel is NCCL's cost model for communicators of one machine.
type costModel struct {
	set     *tuning.Set
	machine *topo.Document // to derive more of the set from; nil without
	options channels.TuneOptions
	nccl    nccl.Version // that asks the tuner; the set's or a newer one
	ignored int          // constants that a tuner replaces and that the set does not know
	notes   []string     // what the costs do not reckon with
	// standIns notes communicators whose costs are those of another size.
	standIns map[grid.Shape]grid.Shape
}

// getenv is the environment in which the tuner looks for the machine.
func (f *costFlags) getenv(name string) string {
	if name == detect.TunerFileVariable && f.topo != "" {
		if path, err := cli.PathOf(f.topo); err == nil {
			return path
		}
		return f.topo
	}
	return os.Getenv(name)
}

func (f *costFlags) read() (*costModel, error) {
	if f.tuning != "" {
		return f.readTuning()
	}
	version, note, err := whichNCCL(f.nccl)
	if err != nil {
		return nil, err
	}
	m := &costModel{standIns: map[grid.Shape]grid.Shape{}, nccl: version, notes: uncountedVariables()}
	if note != "" {
		m.notes = append(m.notes, note)
	}
	if m.options, err = tuneOptions(version); err != nil {
		return nil, err
	}
	if f.topo == "" {
		return m, m.ofHGXH100()
	}
	if m.machine, err = readTopology(f.topo); err != nil {
		return nil, err
	}
	m.set = &tuning.Set{System: f.topo, NCCL: m.options.NCCL}
	return m, m.derive(1)
}

// tuneOptions are for costs as this environment's variables make them.
func tuneOptions(version nccl.Version) (channels.TuneOptions, error) {
	variables, err := channels.VariablesFromEnv(os.Getenv, version.Rules())
	return channels.TuneOptions{NCCL: version.Rules(), Build: buildOptions(), Settings: topo.SettingsFromEnv(os.Getenv), Variables: variables}, err
}

// readTuning reads a file of costs, which is of one release and of the variables that it was made with.
func (f *costFlags) readTuning() (*costModel, error) {
	if f.topo != "" {
		return nil, cli.Usagef("--topo and --tuning exclude each other")
	}
	text, err := cli.ReadInput(f.tuning, cli.KindTuning)
	if err != nil {
		return nil, err
	}
	m := &costModel{standIns: map[grid.Shape]grid.Shape{}, notes: uncountedVariables()}
	if m.set, err = tuning.Read(bytes.NewReader(text), f.tuning); err != nil {
		return nil, err
	}
	m.nccl, m.set.System = m.set.NCCL, cmp.Or(m.set.System, f.tuning)
	if f.nccl != "" {
		if v, err := nccl.ParseVersion(f.nccl); err != nil || v.Rules() != m.set.NCCL.Rules() {
			return nil, cli.Usagef("--nccl %s: the costs of %s are of NCCL %s (--topo derives those of any release)", f.nccl, f.tuning, m.set.NCCL)
		}
	}
	if set := countedVariables(); set != "" {
		m.notes = append(m.notes, fmt.Sprintf("%s: set, and does not count with the costs of a file", set))
	}
	return m, nil
}

// ofHGXH100 gives the costs of that machine: for the reference release without variables they are here,
// else they are derived from its topology.
func (m *costModel) ofHGXH100() (err error) {
	if m.set, err = tuning.Read(strings.NewReader(configs.HGXH100), "hgx-h100.json"); err != nil {
		return err
	}
	o := &m.options
	if o.NCCL == m.set.NCCL && o.Build == (topo.BuildOptions{}) && o.Settings == (topo.Settings{}) && o.Variables == (channels.Variables{}) {
		return nil
	}
	m.set.NCCL, m.set.Tunings = m.options.NCCL, nil
	if m.machine, err = hgxH100(); err != nil {
		return err
	}
	return m.derive(1)
}

func hgxH100() (*topo.Document, error) {
	return topo.Read("dgx-h100.xml", strings.NewReader(configs.DGXH100))
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
func (m *costModel) of(s grid.Shape) (*tuning.Tuning, error) {
	if m.machine != nil && m.set.For(s.Nodes, 0) == nil {
		if err := m.derive(s.Nodes); err != nil {
			return nil, err
		}
	}
	if t := m.set.For(s.Nodes, s.Ranks); t != nil {
		return t, nil
	}
	distance := func(t *tuning.Tuning) float64 {
		far := max(float64(t.NNodes)/float64(s.Nodes), float64(s.Nodes)/float64(t.NNodes))
		if (t.NNodes == 1) != (s.Nodes == 1) {
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
	m.standIns[s] = grid.Shape{Nodes: best.NNodes, Ranks: best.NRanks}
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
func (m *costModel) noteStandIns(w io.Writer, shown []grid.Shape) {
	for _, note := range m.notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	system := m.system()
	for _, s := range shown {
		if by, ok := m.standIns[s]; ok {
			fmt.Fprintf(w, "note: no NCCL costs of %s for %s; those for %s stand in\n", system, s, by)
		}
	}
}

// buildOptions follow NCCL's variables too.
func buildOptions() topo.BuildOptions {
	return topo.BuildOptions{WholeMLOPart: os.Getenv("NCCL_TOPO_SPLIT_MLOPART") == "0"}
}

// readTopology reads a topology file.
func readTopology(name string) (*topo.Document, error) {
	text, err := cli.ReadInput(name, cli.KindTopology)
	if err != nil {
		return nil, err
	}
	return topo.Read(name, bytes.NewReader(text))
}

// deriveFor adds NCCL's costs over all numbers of hosts that communicators have.
func (m *costModel) deriveFor(shapes []grid.Shape) error {
	if m.machine == nil {
		return nil
	}
	var hosts []int
	for _, s := range shapes {
		if !slices.Contains(hosts, s.Nodes) && m.set.For(s.Nodes, 0) == nil {
			hosts = append(hosts, s.Nodes)
		}
	}
	return m.derive(hosts...)
}

// shapes lists the communicators that there are costs for.
func (m *costModel) shapes() string {
	var names []string
	for _, t := range m.set.Tunings {
		names = append(names, grid.Shape{Nodes: t.NNodes, Ranks: t.NRanks}.String())
	}
	return strings.Join(names, ", ")
}

// doubt says why the costs may not be those of the user's machine; empty where the user
// has named it, or this is it.
func (f *costFlags) doubt() string {
	if f.topo != "" || f.tuning != "" {
		return ""
	}
	here, err := doctor.Machine(f.getenv)
	if err != nil {
		return "; nothing here tells whether your machine is one"
	}
	doc, err := hgxH100()
	if err == nil {
		var sys *topo.System
		if sys, err = topo.Build(doc, buildOptions()); err == nil && sys.Fingerprint().SameMachine(here.Fingerprint) {
			return ""
		}
	}
	return fmt.Sprintf("; this machine is none (%s)", here.Summary)
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
		fmt.Fprintf(w, "note: the tuner replaces %s of NCCL's; what NCCL chooses by itself is shown without, as a file of latencies and bandwidths has no topology to derive it from\n", cli.CountOf(m.ignored, "constant"))
	}
}
