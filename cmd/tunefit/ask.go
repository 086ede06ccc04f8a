package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/costs"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/grid"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/plugin/host"
)

// asker asks a tuner what it makes of a policy.
type asker struct {
	plugin *host.Plugin
	abi    int // newest version of the tuner ABI that NCCL has
	from   costs.Flags
	costs  *costs.Model // NCCL's without a tuner
	comms  map[commKey]*host.Comm
	own    map[string]*costs.Model // by the constants that the plugin replaces
	notes  []string                // what the plugin warned of
	// engines know who decides, and what NCCL was measured to choose.
	engines   map[decider]*policy.Engine
	modelled  bool    // one of them has a model
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
	grid.Shape
}

// newAsker reads what each of by names, which may be asked about.
func newAsker(who cli.LibraryFlag, from costs.Flags, by ...decider) (*asker, error) {
	engines, modelled := map[decider]*policy.Engine{}, false
	for _, d := range by {
		files, err := d.read()
		if err != nil {
			return nil, err
		}
		engines[d], _ = files.engine(from) // the plugin says what is not known of the machine
		modelled = modelled || files.model != nil
	}
	base, err := from.Read()
	if err != nil {
		return nil, err
	}
	library, err := who.Find()
	if err != nil {
		return nil, err
	}
	a := &asker{from: from, costs: base, comms: map[commKey]*host.Comm{}, own: map[string]*costs.Model{}, engines: engines, modelled: modelled}
	a.abi = base.NCCL.ABI(nil)
	if a.plugin, err = host.Load(library, a.abi); err != nil {
		return nil, err
	}
	settings := map[string]string{tuner.EnvStrict: "1", tuner.EnvReload: "new",
		tuner.EnvFilesTrust: "1", // who looks at a file does not run on it
	}
	if from.Topo != "" { // what the model's machine is compared with
		settings[detect.TunerFileVariable] = from.Getenv(detect.TunerFileVariable)
	}
	if a.abi == nccl.ABINoCosts && os.Getenv("NCCL_ALGO")+os.Getenv("NCCL_PROTO") != "" {
		a.notes = append(a.notes, fmt.Sprintf("NCCL_ALGO or NCCL_PROTO is set and NCCL %s does not tell what they allow, NCCL decides", base.NCCL))
	}
	for name, value := range settings {
		if err := a.plugin.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *asker) close() { a.plugin.Close() }

// comm returns the plugin's communicator of this shape with these files.
func (a *asker) comm(d decider, s grid.Shape) (*host.Comm, error) {
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
	c, log, err := a.plugin.Open(host.CommInfo{Nodes: s.Nodes, Ranks: s.Ranks, NVLDomains: s.ToldNVLDomains(), NCCL: a.costs.NCCL})
	if err != nil {
		return nil, errors.Join(warnings(log), err)
	}
	if err := hears(c, s); err != nil {
		return nil, err
	}
	a.comms[key] = c
	for _, l := range log {
		if text := strings.TrimPrefix(l.Text, "TUNER/Go: "); l.Warn && !slices.Contains(a.notes, text) {
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
func (a *asker) ask(d decider, s grid.Shape, questions []question) ([]outcome, error) {
	comm, err := a.comm(d, s)
	if err != nil {
		return nil, err
	}
	costs, err := a.tuning(d, s)
	if err != nil {
		return nil, err
	}
	plain, err := a.costs.Of(s)
	if err != nil {
		return nil, err
	}
	engine := a.engines[d]
	view := engine.For(commOf(s, a.costs.NCCL))
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
		o.release, o.abi = a.costs.NCCL, comm.ABI
		o.keepLower(after.Channels)
		query := q.query(calls[i].Table, comm.ABI)
		if x := view.Decide(query); sameAnswer(answers[i], throughABI(x.Decision, calls[i].Table, comm.ABI)) {
			o.why, o.byModel = tuner.Reason(engine, query, x), x.By == policy.ByModel
			if x.By == policy.ByRow {
				o.row = engine.Policy.Rules[x.Rule].Line
			}
		}
		made := policy.Decision{Algo: o.policy.algo, Proto: o.policy.proto, Write: o.policy != o.own, Channels: o.channels}
		if choice, ok := view.Expect(query, made); ok {
			o.expected = &choice
		}
	}
	return outcomes, nil
}

// throughABI is a decision of this project's library as a release of NCCL gets it.
func throughABI(d policy.Decision, table []float32, abi int) host.Answer {
	a := host.Answer{Table: slices.Clone(table), Channels: d.Channels}
	if abi >= nccl.ABIChunks {
		a.ChunkBytes = int64(d.ChunkBytes)
	}
	at := int(d.Algo)*nccl.NumProtos + int(d.Proto)
	switch {
	case abi == nccl.ABINoCosts && d.Write:
		if a.Table[at] >= 0 { // NCCL checks, as it did not tell the tuner
			a.Table[at] = 0
		}
	case abi == nccl.ABINoCosts:
		a.Channels = 0 // they go with an algorithm there
	case d.Write:
		a.Table[at] = d.Micros
	}
	return a
}

// sameAnswer compares bit by bit, but for the kind of NaN.
func sameAnswer(a, b host.Answer) bool {
	return a.Channels == b.Channels && a.ChunkBytes == b.ChunkBytes && slices.EqualFunc(a.Table, b.Table, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

// choose returns what NCCL chooses from a flat table.
func choose(costs *tuning.Tuning, flat []float32, bytes uint64) tuning.Choice {
	var table nccl.CostTable
	for i, micros := range flat {
		table[i/nccl.NumProtos][i%nccl.NumProtos] = micros
	}
	return costs.ChooseFrom(table, int64(bytes))
}

// hears fails for a number that a person gave and that the tuner is never told.
func hears(c *host.Comm, s grid.Shape) error {
	if s.NVL > 0 && c.ABI < nccl.ABIComms {
		return fmt.Errorf("the plugin has tuner ABI v%d, which is not told of NVLink domains (needed: v%d, NCCL 2.28.3)", c.ABI, nccl.ABIComms)
	}
	return nil
}

// tuning is NCCL's cost model of a communicator, with the constants that the plugin
// has written for it.
func (a *asker) tuning(d decider, s grid.Shape) (*tuning.Tuning, error) {
	comm, err := a.comm(d, s)
	if err != nil {
		return nil, err
	}
	if len(comm.Constants) == 0 {
		return a.costs.Of(s)
	}
	key := fmt.Sprint(comm.Constants)
	if a.own[key] == nil {
		if a.costs, a.own[key], err = a.from.With(comm.Constants, a.costs); err != nil {
			return nil, err
		}
	}
	return a.own[key].Of(s)
}
