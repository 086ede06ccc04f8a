package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/release"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/plugin/host"
)

const libraryName = "libnccl-tuner-go.so"

// pluginFlags name who is asked.
type pluginFlags struct{ library string }

func (f *pluginFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.library, "plugin", "", "tuner library to ask (default "+libraryName+" beside tunefit or in ../lib)")
}

// asker asks a tuner what it makes of a policy.
type asker struct {
	plugin *host.Plugin
	abi    int // newest version of the tuner ABI that NCCL has
	from   costFlags
	costs  *costModel // NCCL's without a tuner
	comms  map[commKey]*host.Comm
	own    map[string]*costModel // by the constants that the plugin replaces
	// notes is what the plugin warned of, and why it leaves communicators to NCCL.
	notes []string
	// limit changes what NCCL offers; nil leaves it at its costs.
	limit func(*tuning.CostTable)
}

// decider is what decides: a policy file, a model, or both. "" is none.
type decider struct{ policy, model string }

type commKey struct {
	decider
	shape
}

func newAsker(who pluginFlags, from costFlags) (*asker, error) {
	costs, err := from.read()
	if err != nil {
		return nil, err
	}
	library, err := who.find()
	if err != nil {
		return nil, err
	}
	a := &asker{from: from, costs: costs, comms: map[commKey]*host.Comm{}, own: map[string]*costModel{}}
	a.abi = ncclVersion(costs.nccl).abi(nil)
	if a.plugin, err = host.Load(library, a.abi); err != nil {
		return nil, err
	}
	settings := map[string]string{tuner.EnvStrict: "1", tuner.EnvLog: "decisions", tuner.EnvReload: "new"}
	if from.topo != "" { // what the model's machine is compared with
		settings[detect.TunerFileVariable] = from.topo
	}
	for name, value := range settings {
		if err := a.plugin.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (f *pluginFlags) find() (string, error) {
	if f.library != "" {
		return f.library, nil
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

func (a *asker) close() { a.plugin.Close() }

// forget lets the next questions go to new communicators. Only a new decision is
// logged, so that the row behind one that a communicator has made before is not told.
func (a *asker) forget() { clear(a.comms) }

// leftToNCCL ends what the plugin says of a communicator that is not for it.
const leftToNCCL = ", NCCL decides"

// comm returns the plugin's communicator of this shape with these files.
func (a *asker) comm(d decider, s shape) (*host.Comm, error) {
	key := commKey{d, s}
	if c := a.comms[key]; c != nil {
		return c, nil
	}
	if err := errors.Join(a.plugin.Setenv(tuner.EnvConfigFile, d.policy), a.plugin.Setenv(tuner.EnvModelFile, d.model)); err != nil {
		return nil, err
	}
	c, log, err := a.plugin.Open(host.CommInfo{Nodes: s.nodes, Ranks: s.ranks, NVLDomains: s.toldNVLDomains(),
		ConstantsLost: a.costs.nccl.Has(release.TunerConstantsLost)})
	if err != nil {
		return nil, errors.Join(warnings(log), err)
	}
	if err := s.hears(c); err != nil {
		return nil, err
	}
	a.comms[key] = c
	for _, l := range log {
		text := strings.TrimPrefix(l.Text, "TUNER/Go: ")
		if l.Warn || strings.HasSuffix(text, leftToNCCL) {
			a.notes = append(a.notes, text)
		}
	}
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

// ask asks questions about one communicator.
func (a *asker) ask(d decider, s shape, questions []question) ([]outcome, error) {
	comm, err := a.comm(d, s)
	if err != nil {
		return nil, err
	}
	costs, err := a.tuning(d, s)
	if err != nil {
		return nil, err
	}
	alone, err := a.costs.of(s)
	if err != nil {
		return nil, err
	}
	calls := make([]host.Call, len(questions))
	for i, q := range questions {
		calls[i] = host.Call{Coll: int(q.coll), Bytes: int64(q.bytes), PipeOps: q.pipeOps, RegBuff: q.regBuff, NumProto: tuning.NumProtos}
		calls[i].Table = a.table(costs, q)
	}
	answers, err := comm.Ask(calls)
	if err != nil {
		return nil, err
	}
	outcomes := make([]outcome, len(questions))
	for i, q := range questions {
		before, after := choose(alone, a.table(alone, q), q.bytes), choose(costs, answers[i].Table, q.bytes)
		own := choose(costs, calls[i].Table, q.bytes)
		outcomes[i] = outcome{
			question: q,
			nccl:     cell{before.Algo, before.Proto}, ncclMicros: before.Micros, ncclChannels: before.Channels,
			own:    cell{own.Algo, own.Proto},
			policy: cell{after.Algo, after.Proto}, channels: answers[i].Channels, chunk: answers[i].ChunkBytes,
			release: a.costs.nccl, abi: comm.ABI,
		}
		outcomes[i].keepLower(after.Channels)
		for _, line := range answers[i].Log {
			if by, ok := tuner.ParseDecidedBy(line.Text, d.policy, d.model); ok {
				outcomes[i].by = by
			}
		}
	}
	return outcomes, nil
}

// table is what NCCL's cost model says of a question, flat.
func (a *asker) table(costs *tuning.Tuning, q question) (flat []float32) {
	table := costs.Table(int(q.coll), int64(q.bytes), q.pipeOps)
	if a.limit != nil {
		a.limit(&table)
	}
	for _, row := range table {
		flat = append(flat, row[:]...)
	}
	return flat
}

// choose returns what NCCL chooses from a flat table.
func choose(costs *tuning.Tuning, flat []float32, bytes uint64) tuning.Choice {
	var table tuning.CostTable
	for i, micros := range flat {
		table[i/tuning.NumProtos][i%tuning.NumProtos] = micros
	}
	return costs.ChooseFrom(table, int64(bytes))
}
