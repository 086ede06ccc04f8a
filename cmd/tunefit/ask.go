package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/plugin/host"
)

const libraryName = "libnccl-tuner-go.so"

// askFlags name who is asked, and what NCCL would say without it.
type askFlags struct {
	plugin string
	tuning string
	topo   string
}

func (f *askFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.plugin, "plugin", "", "tuner library to ask (default "+libraryName+" beside tunefit or in ../lib)")
	cmd.Flags().StringVar(&f.topo, "topo", "", "topology file of your machine (NCCL's XML), to derive them from")
	cmd.Flags().StringVar(&f.tuning, "tuning", "", "NCCL's latencies and bandwidths on your machine, JSON (default: those of an HGX H100)")
}

// asker asks a tuner what it makes of a policy.
type asker struct {
	plugin *host.Plugin
	tuning *tuning.Set
	host   *topo.Document // to derive more of tuning from; nil without
	comms  map[commKey]*host.Comm
	// standIn notes communicators whose costs are those of another size.
	standIn map[shape]shape
}

type commKey struct {
	policy string
	shape
}

// cell is an algorithm and a protocol, as NCCL numbers them.
type cell struct{ algo, proto int }

func (c cell) String() string {
	if c.algo < 0 {
		return "-"
	}
	return fmt.Sprintf("%s/%s", policy.Algo(c.algo), policy.Proto(c.proto))
}

// outcome is what NCCL does with one collective, without and with the policy.
type outcome struct {
	coll  policy.Coll
	shape shape
	bytes uint64

	nccl         cell
	ncclMicros   float32
	ncclChannels int

	policy   cell
	channels int // 0: NCCL's own
	chunk    int64
	row      int // line of the policy file; 0: no row decided
}

// same reports whether the policy makes the same of both.
func (o outcome) same(b outcome) bool {
	return o.policy == b.policy && o.channels == b.channels && o.chunk == b.chunk
}

func (f *askFlags) open() (*asker, error) {
	costs, machine, err := f.readCosts()
	if err != nil {
		return nil, err
	}
	library, err := f.library()
	if err != nil {
		return nil, err
	}
	a := &asker{tuning: costs, host: machine, comms: map[commKey]*host.Comm{}, standIn: map[shape]shape{}}
	if a.plugin, err = host.Load(library); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{tuner.EnvStrict: "1", tuner.EnvLog: "decisions"} {
		if err := a.plugin.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (f *askFlags) library() (string, error) {
	if f.plugin != "" {
		return f.plugin, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	here := filepath.Dir(self)
	for _, path := range []string{filepath.Join(here, libraryName), filepath.Join(here, "..", "lib", libraryName)} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in %s or ../lib beside it; name it with --plugin", libraryName, here)
}

// readCosts reads NCCL's costs, or a topology to derive them from.
func (f *askFlags) readCosts() (*tuning.Set, *topo.Document, error) {
	if f.topo == "" {
		set, err := f.readTuning()
		return set, nil, err
	}
	if f.tuning != "" {
		return nil, nil, usagef("--topo and --tuning exclude each other")
	}
	doc, err := topo.ReadFile(f.topo)
	if err != nil {
		return nil, nil, err
	}
	set := &tuning.Set{System: f.topo, NCCL: "2.30.7"}
	return set, doc, deriveCosts(set, doc, 1)
}

// deriveCosts adds NCCL's costs over so many hosts like the one described.
func deriveCosts(set *tuning.Set, doc *topo.Document, hosts int) error {
	comms, err := channels.Tune(doc, channels.TuneOptions{Build: buildOptions(), Settings: topo.SettingsFromEnv(os.Getenv)}, hosts)
	if err != nil {
		return err
	}
	if t := comms[0].Tuning; set.For(t.NNodes, t.NRanks) == nil {
		set.Tunings = append(set.Tunings, t)
	}
	return nil
}

func (f *askFlags) readTuning() (*tuning.Set, error) {
	if f.tuning == "" {
		return tuning.Read(strings.NewReader(configs.HGXH100), "hgx-h100.json")
	}
	file, err := os.Open(f.tuning)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return tuning.Read(file, f.tuning)
}

func (a *asker) close() { a.plugin.Close() }

// comm returns the plugin's communicator of this shape under this policy.
func (a *asker) comm(policyFile string, s shape) (*host.Comm, error) {
	key := commKey{policyFile, s}
	if c := a.comms[key]; c != nil {
		return c, nil
	}
	if err := a.plugin.Setenv(tuner.EnvConfigFile, policyFile); err != nil {
		return nil, err
	}
	c, log, err := a.plugin.Open(s.nodes, s.ranks)
	if err != nil {
		return nil, errors.Join(warnings(log), err)
	}
	a.comms[key] = c
	return c, nil
}

func warnings(log []host.Line) error {
	var all []error
	for _, l := range log {
		if l.Warn {
			all = append(all, errors.New(strings.TrimPrefix(l.Text, "TUNER/Go: ")))
		}
	}
	return errors.Join(all...)
}

// costs returns NCCL's model of a communicator. Where the tuning has none of its
// size, the one with the nearest number of nodes stands in.
func (a *asker) costs(s shape) (*tuning.Tuning, error) {
	if a.host != nil && a.tuning.For(s.nodes, 0) == nil {
		if err := deriveCosts(a.tuning, a.host, s.nodes); err != nil {
			return nil, err
		}
	}
	if t := a.tuning.For(s.nodes, s.ranks); t != nil {
		return t, nil
	}
	distance := func(t *tuning.Tuning) float64 {
		far := max(float64(t.NNodes)/float64(s.nodes), float64(s.nodes)/float64(t.NNodes))
		if (t.NNodes == 1) != (s.nodes == 1) {
			far += 1000 // one node and several have little in common
		}
		return far
	}
	best := slices.MinFunc(a.tuning.Tunings, func(x, y *tuning.Tuning) int {
		switch dx, dy := distance(x), distance(y); {
		case dx < dy:
			return -1
		case dx > dy:
			return 1
		}
		return 0
	})
	a.standIn[s] = shape{best.NNodes, best.NRanks}
	return best, nil
}

// decidedBy is the end of the line that NCCL_TUNER_LOG=decisions writes.
var decidedBy = regexp.MustCompile(`decided by .*:([0-9]+)$`)

func (a *asker) ask(policyFile string, coll policy.Coll, s shape, bytes uint64) (outcome, error) {
	c, err := a.comm(policyFile, s)
	if err != nil {
		return outcome{}, err
	}
	const pipeOps = 1
	costs, err := a.costs(s)
	if err != nil {
		return outcome{}, err
	}
	table := costs.Table(int(coll), int64(bytes), pipeOps)
	before := costs.ChooseFrom(table, int64(bytes))
	o := outcome{
		coll: coll, shape: s, bytes: bytes,
		nccl: cell{before.Algo, before.Proto}, ncclMicros: before.Micros, ncclChannels: before.Channels,
	}
	flat := make([]float32, 0, tuning.NumAlgos*tuning.NumProtos)
	for _, row := range table {
		flat = append(flat, row[:]...)
	}
	answer, err := c.Ask(host.Call{Coll: int(coll), Bytes: int64(bytes), PipeOps: pipeOps, Table: flat, NumProto: tuning.NumProtos})
	if err != nil {
		return o, err
	}
	for i, micros := range answer.Table {
		table[i/tuning.NumProtos][i%tuning.NumProtos] = micros
	}
	after := costs.ChooseFrom(table, int64(bytes))
	o.policy, o.channels, o.chunk = cell{after.Algo, after.Proto}, answer.Channels, answer.ChunkBytes
	for _, line := range answer.Log {
		if m := decidedBy.FindStringSubmatch(line.Text); m != nil {
			o.row, _ = strconv.Atoi(m[1])
		}
	}
	return o, nil
}

// noteStandIns says where the costs are not those of the communicator shown.
func (a *asker) noteStandIns(w io.Writer, shown []shape) {
	for _, s := range shown {
		if by, ok := a.standIn[s]; ok {
			system, _, _ := strings.Cut(a.tuning.System, ":")
			fmt.Fprintf(w, "note: no NCCL costs of %s for %s; those for %s stand in\n", system, s, by)
		}
	}
}
