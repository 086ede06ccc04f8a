// Package ask asks the built library, in a child process, what it makes of a policy and a model, with the costs that NCCL
// would hand to it; and the engine, which is the same code, who decided and why.
package ask

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
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/host"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// Asker asks a tuner what it makes of a policy.
type Asker struct {
	plugin *host.Plugin
	ABI    int // newest version of the tuner ABI that NCCL has
	from   costs.Flags
	Costs  *costs.Model // NCCL's without a tuner
	comms  map[commKey]*host.Comm
	Notes  []string // what the plugin warned of
	// engines know who decides, and what NCCL was measured to choose.
	engines   map[Decider]*policy.Engine
	modelled  bool    // one of them has a model
	estimates bool    // of NCCL's cost model were needed
	Offers    *Offers // instead of what NCCL's costs offer; nil: that
}

// Decider is what decides: a policy file, a model, or both. "" is none.
type Decider struct{ Policy, Model string }

// paths returns the files that the plugin reads for d.
func (d Decider) paths() (files Decider, err error) {
	var err1, err2 error
	files.Policy, err1 = cli.PathOf(d.Policy)
	files.Model, err2 = cli.PathOf(d.Model)
	return files, errors.Join(err1, err2)
}

type commKey struct {
	Decider
	grid.Shape
}

// NewAsker reads what each of by names, which may be asked about.
func NewAsker(who cli.LibraryFlag, from costs.Flags, by ...Decider) (*Asker, error) {
	engines, modelled := map[Decider]*policy.Engine{}, false
	for _, d := range by {
		files, err := d.Read()
		if err != nil {
			return nil, err
		}
		from.Measured(d.Policy, files.measured)
		if files.model != nil {
			// An error is of a model that names several releases, or none.
			with, _ := nccl.ParseVersion(files.model.File.Provenance.NCCL)
			from.Measured(d.Model, with)
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
	a := &Asker{from: from, Costs: base, comms: map[commKey]*host.Comm{}, engines: engines, modelled: modelled}
	a.ABI = base.NCCL.ABI(nil)
	if a.plugin, err = host.Load(library, a.ABI); err != nil {
		return nil, err
	}
	settings := map[string]string{tuner.EnvStrict: "1", tuner.EnvReload: "new",
		tuner.EnvFilesTrust: "1", // who looks at a file does not run on it
	}
	if from.Topo != "" { // what the model's machine is compared with
		settings[detect.TunerFileVariable] = from.Getenv(detect.TunerFileVariable)
	}
	if a.ABI == nccl.ABINoCosts && os.Getenv("NCCL_ALGO")+os.Getenv("NCCL_PROTO") != "" {
		a.Notes = append(a.Notes, fmt.Sprintf("NCCL_ALGO or NCCL_PROTO is set and NCCL %s does not tell what they allow, NCCL decides", base.NCCL))
	}
	for name, value := range settings {
		if err := a.plugin.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Close ends the process that has loaded the library.
func (a *Asker) Close() { a.plugin.Close() }

// comm returns the plugin's communicator of this shape with these files.
func (a *Asker) comm(d Decider, s grid.Shape) (*host.Comm, error) {
	key := commKey{d, s}
	if c := a.comms[key]; c != nil {
		return c, nil
	}
	files, err := d.paths()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(a.plugin.Setenv(tuner.EnvConfigFile, files.Policy), a.plugin.Setenv(tuner.EnvModelFile, files.Model)); err != nil {
		return nil, err
	}
	c, log, err := a.plugin.Open(host.CommInfo{Nodes: s.Nodes, Ranks: s.Ranks, NVLDomains: s.ToldNVLDomains(), NCCL: a.Costs.NCCL})
	if err != nil {
		return nil, errors.Join(warnings(log), err)
	}
	if err := hears(c, s); err != nil {
		return nil, err
	}
	a.comms[key] = c
	for _, l := range log {
		if text := strings.TrimPrefix(l.Text, "TUNER/Go: "); l.Warn && !slices.Contains(a.Notes, text) {
			a.Notes = append(a.Notes, text)
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

// Ask asks questions about one communicator.
func (a *Asker) Ask(d Decider, s grid.Shape, questions []Question) ([]Outcome, error) {
	comm, err := a.comm(d, s)
	if err != nil {
		return nil, err
	}
	costs, err := a.Costs.Of(s)
	if err != nil {
		return nil, err
	}
	engine := a.engines[d]
	view := engine.For(commOf(s, a.Costs.NCCL))
	outcomes := make([]Outcome, len(questions))
	calls := make([]host.Call, len(questions))
	for i, q := range questions {
		outcomes[i] = a.alone(q, view, costs)
		calls[i] = host.Call{Coll: int(q.Coll), Bytes: int64(q.Bytes), PipeOps: q.PipeOps, RegBuff: q.RegBuff, Table: outcomes[i].table, NumProto: nccl.NumProtos}
	}
	answers, err := comm.Ask(calls)
	if err != nil {
		return nil, err
	}
	for i, q := range questions {
		o := &outcomes[i]
		after := choose(costs, answers[i].Table, q.Bytes)
		o.Policy, o.Channels, o.Chunk = cellOf(after), answers[i].Channels, answers[i].ChunkBytes
		o.Release, o.ABI = a.Costs.NCCL, comm.ABI
		o.keepLower(after.Channels)
		query := q.query(calls[i].Table, comm.ABI)
		if x := view.Decide(query); sameAnswer(answers[i], throughABI(x.Decision, calls[i].Table, comm.ABI)) {
			o.why, o.ByModel = tuner.Reason(engine, query, x), x.By == policy.ByModel
			if x.By == policy.ByRow {
				o.Row = engine.Policy.Rules[x.Rule].Line
			}
		}
		made := policy.Decision{Algo: o.Policy.Algo, Proto: o.Policy.Proto, Write: o.Policy != o.NCCL, Channels: o.Channels}
		if choice, ok := view.Expect(query, made); ok {
			o.Expected = &choice
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
