package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/host"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

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
	// engine knows what NCCL was measured to choose, if it has a model.
	engine    *policy.Engine
	estimates bool    // of NCCL's cost model were needed
	offers    *offers // instead of what NCCL's costs offer; nil: that
}

// decider is what decides: a policy file, a model, or both. "" is none.
type decider struct{ policy, model string }

// paths returns the files that the plugin reads for d.
func (d decider) paths() (files decider, err error) {
	var err1, err2 error
	files.policy, err1 = cli.PathOf(d.policy)
	files.model, err2 = cli.PathOf(d.model)
	return files, errors.Join(err1, err2)
}

type commKey struct {
	decider
	shape
}

func newAsker(who cli.LibraryFlag, from costFlags, files deciderFiles) (*asker, error) {
	costs, err := from.read()
	if err != nil {
		return nil, err
	}
	library, err := who.Find()
	if err != nil {
		return nil, err
	}
	a := &asker{from: from, costs: costs, comms: map[commKey]*host.Comm{}, own: map[string]*costModel{}}
	a.engine, _ = files.engine(from) // the plugin says what is not known of the machine
	a.abi = costs.nccl.ABI(nil)
	if a.plugin, err = host.Load(library, a.abi); err != nil {
		return nil, err
	}
	settings := map[string]string{tuner.EnvStrict: "1", tuner.EnvLog: "decisions", tuner.EnvReload: "new",
		tuner.EnvFilesTrust: "1", // who looks at a file does not run on it
	}
	if from.topo != "" { // what the model's machine is compared with
		settings[detect.TunerFileVariable] = from.getenv(detect.TunerFileVariable)
	}
	for name, value := range settings {
		if err := a.plugin.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	return a, nil
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
	files, err := d.paths()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(a.plugin.Setenv(tuner.EnvConfigFile, files.policy), a.plugin.Setenv(tuner.EnvModelFile, files.model)); err != nil {
		return nil, err
	}
	c, log, err := a.plugin.Open(host.CommInfo{Nodes: s.nodes, Ranks: s.ranks, NVLDomains: s.toldNVLDomains(), NCCL: a.costs.nccl})
	if err != nil {
		return nil, errors.Join(warnings(log), err)
	}
	if err := s.hears(c); err != nil {
		return nil, err
	}
	a.comms[key] = c
	for _, l := range log {
		text := strings.TrimPrefix(l.Text, "TUNER/Go: ")
		if (l.Warn || strings.HasSuffix(text, leftToNCCL)) && !slices.Contains(a.notes, text) {
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
	files, err := d.paths()
	if err != nil {
		return nil, err
	}
	costs, err := a.tuning(d, s)
	if err != nil {
		return nil, err
	}
	plain, err := a.costs.of(s)
	if err != nil {
		return nil, err
	}
	view := a.engine.For(s.comm(a.costs.nccl))
	outcomes := make([]outcome, len(questions))
	calls := make([]host.Call, len(questions))
	for i, q := range questions {
		outcomes[i] = a.alone(q, view, plain, costs)
		calls[i] = host.Call{Coll: int(q.coll), Bytes: int64(q.bytes), PipeOps: q.pipeOps, RegBuff: q.regBuff, Table: outcomes[i].table, NumProto: nccl.NumProtos}
	}
	answers, err := comm.Ask(calls)
	if err != nil {
		return nil, err
	}
	for i, q := range questions {
		o := &outcomes[i]
		after := choose(costs, answers[i].Table, q.bytes)
		o.policy, o.channels, o.chunk = cellOf(after), answers[i].Channels, answers[i].ChunkBytes
		o.release, o.abi = a.costs.nccl, comm.ABI
		o.keepLower(after.Channels)
		for _, line := range answers[i].Log {
			if by, ok := tuner.ParseDecidedBy(line.Text, files.policy, files.model); ok {
				o.by = by
			}
		}
	}
	return outcomes, nil
}

// choose returns what NCCL chooses from a flat table.
func choose(costs *tuning.Tuning, flat []float32, bytes uint64) tuning.Choice {
	var table nccl.CostTable
	for i, micros := range flat {
		table[i/nccl.NumProtos][i%nccl.NumProtos] = micros
	}
	return costs.ChooseFrom(table, int64(bytes))
}
