// Package ask asks the policy engine, which is the library's own code, what it decides with the costs that NCCL would
// hand to a tuner, who decided, and why. It does not load the library; a test holds both together.
package ask

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/termsafe"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// Asker asks what policies and models decide in one release of NCCL.
type Asker struct {
	ABI       int // version of the tuner ABI by which the release asks
	from      ncclchoice.Flags
	Costs     *ncclchoice.Model // NCCL's without a tuner
	Notes     []string          // what the library would warn of
	Offers    *Offers           // instead of what NCCL's costs offer; nil: that
	engines   map[Decider]*policy.Engine
	views     map[commKey]*policy.EngineView
	idle      bool // the library leaves all to NCCL, whatever the files say
	modelled  bool // one of the engines has a model
	estimates bool // of NCCL's cost model were needed
}

// Decider is what decides: a policy file, a model, or both. "" is none.
type Decider struct{ Policy, Model string }

type commKey struct {
	Decider
	commspec.Shape
}

// NewAsker reads what each of by names, which may be asked about.
func NewAsker(from ncclchoice.Flags, by ...Decider) (*Asker, error) {
	a := &Asker{engines: map[Decider]*policy.Engine{}, views: map[commKey]*policy.EngineView{}}
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
		engine, err := files.engine(from.Topo)
		if err != nil {
			a.note("the topology of this machine is not known: %v", err)
		}
		if engine.Standing.Abstains() {
			a.note("the model %s %s", files.model.Name, engine.Standing)
		}
		a.engines[d], a.modelled = engine, a.modelled || files.model != nil
	}
	var err error
	if a.Costs, err = from.Read(); err != nil {
		return nil, err
	}
	a.from, a.ABI = from, a.Costs.NCCL.ABI(nil)
	if a.idle = a.ABI == nccl.ABINoCosts && cmp.Or(os.Getenv("NCCL_ALGO"), os.Getenv("NCCL_PROTO")) != ""; a.idle {
		a.note("NCCL_ALGO or NCCL_PROTO is set and NCCL %s does not tell what they allow, NCCL decides", a.Costs.NCCL)
	}
	return a, nil
}

// note adds to the notes what is not there yet.
func (a *Asker) note(format string, args ...any) {
	text := termsafe.Line(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
	if !slices.Contains(a.Notes, text) {
		a.Notes = append(a.Notes, text)
	}
}

// view is what decides, as a communicator sees it.
func (a *Asker) view(d Decider, s commspec.Shape) *policy.EngineView {
	key := commKey{d, s}
	if a.views[key] == nil {
		comm := commOf(s, a.Costs.NCCL)
		a.views[key] = a.engines[d].For(comm)
		if !a.idle {
			// By a view of its own: conditions that fail for some calls only are told with these calls.
			tuner.WarnOfConditions(a.engines[d].For(comm), a.note)
		}
	}
	return a.views[key]
}

// Ask asks questions about one communicator.
func (a *Asker) Ask(d Decider, s commspec.Shape, questions []Question) ([]Outcome, error) {
	if s.NVL > 0 && a.ABI < nccl.ABIComms { // a person gave a number that the tuner is never told
		return nil, fmt.Errorf("NCCL %s has tuner ABI v%d, which does not tell of NVLink domains "+
			"(needed: v%d, NCCL 2.28.3)", a.Costs.NCCL, a.ABI, nccl.ABIComms)
	}
	costs, err := a.Costs.Of(s)
	if err != nil {
		return nil, err
	}
	view := a.view(d, s)
	outcomes := make([]Outcome, len(questions))
	for i, q := range questions {
		o := a.alone(q, view, costs)
		query, table := q.query(o.table, a.ABI), o.table
		if !a.idle {
			x := view.Decide(query)
			table, o.Channels, o.Chunk = throughABI(x.Decision, o.table, a.ABI)
			o.why, o.ByModel = telemetry.Reason(a.engines[d], query, x), x.By == policy.ByModel
			if x.By == policy.ByRow {
				o.Row = a.engines[d].Policy.Rules[x.Rule].Line
			}
		}
		after := choose(costs, table, q.Bytes)
		o.Policy, o.Release = cellOf(after), a.Costs.NCCL
		o.keepLower(after.Channels)
		made := policy.Decision{Config: nccl.Config{Cell: o.Policy, Channels: o.Channels}, Write: o.Policy != o.NCCL}
		if choice, ok := view.Expect(query, made); ok {
			o.Expected = &choice
		}
		outcomes[i] = o
	}
	return outcomes, nil
}

// throughABI is a decision as a release of NCCL gets it by its version of the ABI: what the C side of the library
// (tuner/plugin/tables.c) and NCCL make of it. table is NCCL's, and stays as it is.
func throughABI(d policy.Decision, table []float32, abi int) (after []float32, channels int, chunk int64) {
	after, channels = slices.Clone(table), d.Channels
	if abi >= nccl.ABIChunks {
		chunk = int64(min(d.ChunkBytes, math.MaxUint32))
	}
	if d.Write {
		at := int(d.Algo)*nccl.NumProtos + int(d.Proto)
		switch {
		case abi != nccl.ABINoCosts:
			after[at] = d.Micros
		case after[at] >= 0: // NCCL checks, as it did not tell the tuner
			after[at] = 0
		}
	}
	return after, channels, chunk
}

// choose returns what NCCL chooses from a flat table.
func choose(costs *tuning.Tuning, flat []float32, bytes uint64) tuning.Choice {
	var table nccl.CostTable
	for i, micros := range flat {
		table[i/nccl.NumProtos][i%nccl.NumProtos] = micros
	}
	return costs.ChooseFrom(table, int64(bytes))
}
