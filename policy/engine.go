package policy

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Engine decides by the rows of a policy; if none does, by a cost model; if that abstains, it leaves the call
// to NCCL. It is immutable: an edit during a run replaces it as a whole.
type Engine struct {
	Policy *Policy      // nil: none
	Model  *model.Model // nil: none, or none that holds on this machine
	// Standing is how the machine relates to the one that the model given to NewEngine was measured
	// on.
	Standing model.Standing
	// Digest covers all that decisions depend on. Ranks compare it, because two ranks that decide differently
	// hang the job. Each rank finds the topology by itself, so its whole summary is part of the digest if a
	// condition uses any of it, and the fingerprint if one uses that. Otherwise an engine with only a policy or only
	// a model has the digest of that.
	Digest identity.Digest

	topo *topo.Machine // for conditions; nil: not known, or not needed
}

// NeedsTopology reports whether the machine has to be known for NewEngine.
func NeedsTopology(p *Policy, m *model.Model) bool {
	return p != nil && p.NeedsTopology() || m != nil && m.NeedsTopology()
}

// NewEngine combines a policy and a model for a machine. Either may be nil; here is nil if the machine is not
// known.
func NewEngine(p *Policy, m *model.Model, here *topo.Machine) *Engine {
	e := &Engine{Policy: p}
	if m != nil {
		e.Model, e.Standing = m.On(here)
	}
	var parts [][]byte
	if p != nil {
		parts = append(parts, p.Digest[:])
	}
	if e.Model != nil {
		of := e.Model.Digest()
		parts = append(parts, of[:])
	}
	if p != nil && p.NeedsTopology() {
		e.topo = here
		parts = append(parts, p.ofMachine(here))
	}
	if len(parts) == 1 {
		copy(e.Digest[:], parts[0])
	} else if len(parts) > 1 {
		e.Digest = identity.DigestOf(bytes.Join(parts, nil))
	}
	return e
}

// EngineView is an Engine as one communicator sees it.
type EngineView struct {
	comm     Comm
	rows     *View       // nil: none
	model    *model.View // nil: none
	modelFor nccl.Releases
}

// For narrows an engine to a communicator. It sets c.Topo itself.
func (e *Engine) For(c Comm) *EngineView {
	c.Topo = e.topo
	v := &EngineView{comm: c}
	if e.Policy != nil {
		v.rows = e.Policy.For(c)
	}
	if e.Model != nil {
		v.model, v.modelFor = e.Model.In(c.NCCL, c.Comm), e.Model.Releases()
	}
	return v
}

// Empty reports that nothing but NCCL can ever decide for this communicator.
func (v *EngineView) Empty() bool {
	return (v.rows == nil || v.rows.Empty()) && (v.model == nil || v.model.Empty())
}

// Rows returns the policy's part of the view; nil without a policy.
func (v *EngineView) Rows() *View { return v.rows }

// ModelAbstains says why the model has no answer for this communicator at all; "" where it has one, or where there
// is no model.
func (v *EngineView) ModelAbstains() string {
	if v.model == nil || !v.model.Empty() {
		return ""
	}
	why := v.model.Abstention()
	if why == model.AbstainRelease {
		return fmt.Sprintf("it is for NCCL %s, and %s", v.modelFor, v.comm.releaseText())
	}
	return why.String()
}

// forAllGather are the algorithms that NCCL has for AllGather and whose channels a tuner can set.
const forAllGather = 1<<nccl.AlgoRing | 1<<nccl.AlgoNVLS | 1<<nccl.AlgoPAT

// UncheckedAllGathers counts the rows for this communicator whose channel count is left to NCCL because of
// what its NCCL may be. It also says whether the model has such configurations. first is nil if there is no row.
func (v *EngineView) UncheckedAllGathers() (rows int, first *Rule, byModel bool) {
	if !v.comm.NCCL.MayUseUncheckedAllGather() {
		return 0, nil, false
	}
	if v.rows != nil {
		for _, i := range v.rows.rules {
			r := &v.rows.policy.Rules[i]
			if r.Channels != 0 && r.Cells.algos&forAllGather != 0 && r.isForColl(nccl.CollAllGather) {
				rows, first = rows+1, cmp.Or(first, r)
			}
		}
	}
	return rows, first, v.model != nil && v.model.NamesChannels(nccl.CollAllGather)
}

// By says who decided.
type By int8

const (
	ByNCCL By = iota
	ByRow
	ByModel
)

// Answer is a decision and where it comes from.
type Answer struct {
	Decision
	By By
	// Asked says that a model was asked. Then Choice is what it would choose, and Abstention says why that is
	// not used.
	Asked      bool
	Choice     model.Choice
	Abstention model.Abstention
}

// Decide asks the rows, then the model. A row that keeps NCCL's choice decides, too: the model is not asked.
// It never fails: if nothing applies, NCCL decides.
//
// Like View.Decide it is a pure function of the engine and the query.
func (v *EngineView) Decide(q Query) Answer {
	a := Answer{Decision: Decision{Rule: -1}}
	if v.rows != nil {
		a.Decision = v.rows.Decide(q)
	} else {
		a.setNCCLChoice(q.Costs)
	}
	if a.Rule >= 0 {
		a.By = ByRow
		return a
	}
	if v.model == nil {
		return a
	}
	a.Asked = true
	a.Choice, a.Abstention = v.model.Choose(q.Call, q.Costs)
	if a.Abstention != model.Decides {
		return a
	}
	// A model's choice is applied as if a row had asked for it, so that the same limits hold.
	asked := Ask{Cells: CellSet{1 << a.Choice.Algo, 1 << a.Choice.Proto}, Channels: int8(a.Choice.Channels)}
	d, ok := asked.apply(&q, v.comm)
	if !ok {
		a.Abstention = model.AbstainCells
		return a
	}
	a.Decision, a.By = d, ByModel
	return a
}

// Expect returns what the model expects of a decision and of NCCL's choice. ok is false if there is no model,
// if it does not know one of both, and if the decision leaves everything to NCCL.
func (v *EngineView) Expect(q Query, d Decision) (choice model.Choice, ok bool) {
	if v.model == nil || !d.Write && d.Channels == 0 {
		return model.NoChoice, false
	}
	return v.model.Expect(q.Call, q.Costs, d.Config)
}

// NCCLChoice returns what NCCL chose when it was measured. ok is false if it was not, or if there is no model.
func (v *EngineView) NCCLChoice(call nccl.Call) (choice model.Choice, ok bool) {
	if v.model == nil {
		return choice, false
	}
	return v.model.NCCLChoice(call)
}
