package policy

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Query is what NCCL asks about one collective. Every field but RegBuff is the same on all ranks of
// the communicator.
type Query struct {
	nccl.Call
	PipeOps int // NCCL's numPipeOps
	RegBuff int // 0 or 1; -1 where the ABI does not say (v2, v3)
	Costs   nccl.Costs
}

// Decision is the answer to a Query.
type Decision struct {
	Rule int // index into Policy.Rules; -1: no rule matched and NCCL decides

	// Config is what NCCL will choose once the decision is applied, with 0 channels where the number is left
	// to it. Its cell is NoCell if that is not known, or if NCCL has nothing to choose from.
	nccl.Config
	// Tied says that several cells have the least cost. Releases differ in which of them they choose.
	Tied bool
	// Write asks to store Micros in that cell. Without it the table stays as it is, because NCCL
	// would choose the cell anyway.
	Write  bool
	Micros float32

	ChunkBytes uint64 // 0: leave NCCL's chunk size
}

// setNCCLChoice notes what NCCL chooses from the table as it is.
func (d *Decision) setNCCLChoice(c nccl.Costs) { d.Cell, d.Tied = c.NCCLChoice() }

// offersNothing reports that NCCL has no cell to choose. d must be NCCL's own decision.
func (d *Decision) offersNothing(c nccl.Costs) bool { return !d.Known() && !d.Tied && !c.AvailableOnly }

// apply returns the decision of a query for which a is asked, and whether a can decide it.
func (a Ask) apply(q *Query, c Comm) (Decision, bool) {
	d := Decision{Rule: -1, Config: nccl.Config{Cell: nccl.NoCell}}
	if a.Cells == everyCell {
		d.setNCCLChoice(q.Costs)
	} else {
		var ok bool
		if d.Cell, ok = a.Cells.cheapest(q.Costs); !ok {
			return d, false
		}
		if d.Micros, d.Write, ok = q.Costs.MakeCheapest(d.Cell); !ok {
			return d, false
		}
	}
	if !d.Known() { // NCCL's choice, which is not known
		return d, true
	}
	if nccl.ChannelsAreChecked(q.Coll, d.Algo, c.Nodes, c.NCCL.MayUseUncheckedAllGather()) {
		d.Channels = int(a.Channels)
	}
	if a.ChunkBytes > 0 {
		d.ChunkBytes = max(a.ChunkBytes, d.Proto.Grain())
	}
	return d, true
}

// Comm is what decisions may depend on of a communicator: what is equal on all of its ranks.
type Comm struct {
	nccl.Comm
	// NVLDomains is the number of NVLink domains as NCCL counts them. It is 0 before ABI v5, which does not
	// tell.
	NVLDomains int           `json:"nvl_domains"`
	NCCL       nccl.Releases `json:"-"` // what its NCCL may be; the zero value: not known
	Name       string        `json:"-"` // that the program gave it on all ranks; "": none, or not known
	Topo       *topo.Machine `json:"-"` // of the machine; nil: not known. It must not change
}

func (c Comm) env() when.Env {
	return when.EnvOf(c.Comm, c.NVLDomains, c.NCCL.Exact(), c.Name, c.Topo)
}

// releaseText says in a sentence which release the NCCL is.
func (c Comm) releaseText() string {
	if c.NCCL == (nccl.Releases{}) {
		return "the release of this one is not known"
	}
	return "this is " + c.NCCL.String()
}

// View is a Policy as one communicator sees it. A decision goes through the rows that can match the
// communicator, in the file's order: the library asks once for each shape of a call, and then
// remembers the answer.
type View struct {
	policy *Policy
	comm   Comm
	rules  []int32       // indexes in Policy.Rules of those that can match, ascending
	report func(Problem) // may be nil

	perCall  bool // conditions of some rules depend on the call; the others hold
	failures []failure

	noEffect [numNoEffect]int // rows that never match, by why
}

// noEffect says why a row that is for a communicator never matches.
type noEffect int8

const (
	noEffectTopology     noEffect = iota // it asks for the machine, which is not known
	noEffectRelease                      // it asks for a release, and it is not known whether it is this one
	noEffectOtherRelease                 // it is for other releases
	noEffectName                         // it asks for the communicator's name, which has none, or none that is known
	numNoEffect
)

// failure is a row whose condition could not be evaluated.
type failure struct {
	rule int
	err  error
}

// mostKinds bounds the kinds of communicators whose views a policy keeps: jobs have a few, but may name each one.
const mostKinds = 16

// For narrows the policy to a communicator. Communicators of one kind share what it takes long to find.
func (p *Policy) For(c Comm) *View {
	p.viewing.Lock()
	defer p.viewing.Unlock()
	known := p.views[c]
	if known == nil {
		if known = p.narrow(c); p.views == nil || len(p.views) >= mostKinds {
			p.views = map[Comm]*View{}
		}
		p.views[c] = known
	}
	own := *known // whom it reports to is its own
	return &own
}

// narrow finds the rows for a communicator, and evaluates the conditions that are the same for all calls.
func (p *Policy) narrow(c Comm) *View {
	v := &View{policy: p, comm: c}
	env, has := c.env(), numbersOf(c, Query{})
	for i := range p.Rules {
		r := &p.Rules[i]
		if _, covers := r.BytesFor(c.Ranks); r.Coll == collNeverAsked || !covers || !r.isForNumbers(&has, 0, OfCall) {
			continue
		}
		if why, is := r.noEffect(c, env); is {
			v.noEffect[why]++
			continue
		}
		if !NameCovers(r.Name, c.Name) {
			continue
		}
		switch w := r.When; {
		case w == nil:
		case w.Misses(env, when.RanksPerNode), w.Misses(env, when.NVLDomains):
			continue
		case w.PerCall:
			v.perCall = true
		default:
			holds, err := w.Holds(env)
			if err != nil {
				v.failures = append(v.failures, failure{i, err})
			}
			if !holds {
				continue
			}
		}
		v.rules = append(v.rules, int32(i))
	}
	return v
}

// Empty reports that no row can ever decide anything for this communicator.
func (v *View) Empty() bool { return len(v.rules) == 0 }

// noEffect says why a row whose numbers match a communicator never matches it. is is false if it may.
func (r *Rule) noEffect(c Comm, env when.Env) (why noEffect, is bool) {
	switch {
	case !r.NCCL.Overlaps(c.NCCL):
		return noEffectOtherRelease, true
	case !r.NCCL.Contains(c.NCCL), r.When.Misses(env, when.NCCL):
		return noEffectRelease, true
	case r.When.Misses(env, when.Topology):
		return noEffectTopology, true
	case r.Name != "" && c.Name == "", r.When.Misses(env, when.Name):
		return noEffectName, true
	}
	return 0, false
}

// WithoutEffect says which rows would be for this communicator, and never match it.
func (v *View) WithoutEffect() (all []record.NoEffect) {
	release := v.comm.releaseText()
	say := func(of noEffect, why, one, many, text string) {
		if n := v.noEffect[of]; n > 0 {
			all = append(all, record.NoEffect{Why: why,
				Is: wording.Plural(n, "row") + " " + wording.Verb(n, one, many) + " " + text + ": without effect"})
		}
	}
	say(noEffectTopology, record.NoEffectTopology, "is", "are",
		"for this communicator by the machine's topology, which is not known")
	say(noEffectRelease, record.NoEffectRelease, "is", "are",
		"for some releases of NCCL, and "+release+", of which not all are among them")
	say(noEffectOtherRelease, record.NoEffectRelease, "is", "are", "for other releases of NCCL, and "+release)
	say(noEffectName, record.NoEffectName, "asks", "ask",
		"for the communicator's name, which is not known (all ranks need one name, see docs/POLICY.md)")
	return all
}

// Decide finds the first row in the file that matches the query and has an available cell. It never fails: if
// no row applies, NCCL decides.
func (v *View) Decide(q Query) Decision {
	d := Decision{Rule: -1}
	d.setNCCLChoice(q.Costs)
	if !q.Coll.IsAsked() || d.offersNothing(q.Costs) {
		return d
	}
	var env when.Env
	if v.perCall {
		env = v.env(q)
	}
	perRank, has := q.Bytes/uint64(v.comm.Ranks), numbersOf(v.comm, q)
	for _, i := range v.rules {
		r := &v.policy.Rules[i]
		if !r.Bytes.Contains(q.Bytes) || !r.BytesPerRank.Contains(perRank) || !r.isForColl(q.Coll) ||
			!r.isForNumbers(&has, OfCall, NumNumbers) {
			continue
		}
		if r.When != nil && r.When.PerCall && !v.holds(int(i), env) {
			continue
		}
		if found, ok := v.apply(int(i), &q); ok {
			return found
		}
	}
	return d
}

// apply returns what rule r makes of the query, and whether it can decide it.
func (v *View) apply(r int, q *Query) (Decision, bool) {
	d, ok := v.policy.Rules[r].apply(q, v.comm)
	d.Rule = r
	return d, ok
}

// env is what conditions see of one call.
func (v *View) env(q Query) when.Env {
	e := v.comm.env()
	e.SetCall(q.Call, q.PipeOps)
	return e
}

// holds evaluates the condition of a row.
func (v *View) holds(rule int, env when.Env) bool {
	holds, err := v.policy.Rules[rule].When.Holds(env)
	if err != nil {
		v.failed(rule, err)
	}
	return holds
}

// ReportConditions sets a function that is told of each condition that cannot be evaluated, as after a
// division by zero. Rows with such a condition do not match. Each condition is reported once for all views of
// a policy, with the first row that has it. Call it before Decide.
func (v *View) ReportConditions(report func(Problem)) {
	v.report = report
	for _, f := range v.failures {
		v.failed(f.rule, f.err)
	}
}

func (v *View) failed(rule int, err error) {
	if v.report == nil {
		return
	}
	r := &v.policy.Rules[rule]
	if _, again := v.policy.reported.LoadOrStore(r.When, true); !again {
		v.report(Problem{v.policy.File, r.Line, v.policy.header.columnNumber("when"), err.Error()})
	}
}
