package policy

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
)

// This file answers why: for show, explain, tests of policies and the library's log of decisions. View.Decide and
// EngineView.Decide say what is decided. Explain goes through all rows, also those after the row that decides. It
// judges a row by the same apply as Decide, so the two agree.

// Tried is what became of one rule for one query, and why.
type Tried struct {
	Rule   int       `json:"-"`   // index into Policy.Rules
	Row    int       `json:"row"` // line of the file
	Status RowStatus `json:"verdict"`
	Asks   string    `json:"asks"`
	Misses []Miss    `json:"misses,omitempty"` // RowDiffers: each column that does not match
	When   string    `json:"when,omitempty"`
	Values []Value   `json:"values,omitempty"` // of the names in the condition, if it was evaluated
	Error  string    `json:"error,omitempty"`  // RowWhenFails: what cannot be computed
}

// RowStatus says what became of a rule. The zero value decides.
type RowStatus int8

const (
	RowDecides     RowStatus = iota
	RowLater                 // it could decide, but one before it does
	RowDiffers               // a column does not match
	RowWhenUnknown           // its condition mentions what is not known here, as the topology
	RowWhenFails             // its condition cannot be computed, as after a division by zero
	RowWhenFalse             // its condition does not hold

	// The row matches in these, and NCCL's cost table stands against it. Asks relies on their being last.
	RowUnavailable // none of the cells that it asks for is available
	RowUnpriced    // it allows several cells, of which the cheapest is taken, and the ABI (v2) tells no costs
	RowBeaten      // a cell costs 0 in NCCL's table; only positive costs are written, so none is less
)

var rowStatuses = [...]string{
	RowDecides:     "decides",
	RowLater:       "matches, an earlier row decides",
	RowDiffers:     "does not match",
	RowWhenUnknown: "its condition mentions what is not known here",
	RowWhenFails:   "its condition cannot be computed",
	RowWhenFalse:   "its condition does not hold",
	RowUnavailable: "nothing of what it asks for is available here",
	RowUnpriced:    "it asks for the cheapest of several, and NCCL does not tell their costs",
	RowBeaten:      "another choice costs NCCL nothing, which cannot be beaten",
}

func (v RowStatus) String() string { return rowStatuses[v] }

// MarshalText is its sentence.
func (v RowStatus) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Miss is a column of a rule that does not match.
type Miss struct {
	Column string `json:"column"` // as in a policy file; "size" and "size_per_rank" for both ends of a range
	Wants  string `json:"wants"`
	Has    string `json:"has"`
	// Octaves is how far a size is from the range, in doublings; 0 for other columns.
	Octaves float64 `json:"octaves,omitempty"`
}

// Value is what a name in a condition stands for.
type Value struct {
	Name  string `json:"name"`
	Value any    `json:"value"` // nil: not known
}

// Explain says what became of each rule, in the file's order.
func (v *View) Explain(q Query) []Tried {
	env := v.env(q)
	all := make([]Tried, len(v.policy.Rules))
	decided := false
	for i := range all {
		r, t := &v.policy.Rules[i], &all[i]
		*t = Tried{Rule: i, Row: r.Line, Asks: r.Asks(), Misses: r.misses(&q, v.comm)}
		if r.When != nil {
			t.When = r.When.String()
		}
		if len(t.Misses) > 0 {
			t.Status = RowDiffers
			continue
		}
		if r.When != nil {
			t.condition(r.When, env)
		}
		if t.Status == RowDecides {
			t.Status = v.status(i, &q)
		}
		if t.Status == RowDecides && decided {
			t.Status = RowLater
		}
		decided = decided || t.Status == RowDecides
	}
	return all
}

// status says what becomes of a rule whose columns and condition match, as if it were the first of the file.
func (v *View) status(rule int, q *Query) RowStatus {
	var byNCCL Decision
	byNCCL.setNCCLChoice(q.Costs)
	set := v.policy.Rules[rule].Cells
	_, ok := v.apply(rule, q)
	_, offered := set.cheapest(q.Costs)
	switch {
	case byNCCL.offersNothing(q.Costs):
		return RowUnavailable
	case ok:
		return RowDecides
	case q.Costs.AvailableOnly && !set.Single():
		return RowUnpriced
	case !offered:
		return RowUnavailable
	}
	return RowBeaten
}

// condition evaluates the condition of a rule. The status stays RowDecides if it holds.
func (t *Tried) condition(c *when.Condition, env when.Env) {
	for _, name := range c.Names {
		v := Value{name, env[name]}
		t.Values = append(t.Values, v)
		if v.Value == nil {
			t.Status = RowWhenUnknown
		}
	}
	if t.Status == RowWhenUnknown {
		return
	}
	switch holds, err := c.Holds(env); {
	case err != nil:
		t.Status, t.Error = RowWhenFails, err.Error()
	case !holds:
		t.Status = RowWhenFalse
	}
}

// Explanation is an Answer with what led to it.
type Explanation struct {
	Answer
	Rows []Tried // one per rule; nil without a policy
	// Model and Why are what the model says, also where a row decides and it is not asked. Candidates are the
	// configurations it compared; nil without a model.
	Model      model.Choice
	Why        model.Abstention
	Candidates []model.Candidate
}

// Explain is Decide with its reasons.
func (v *EngineView) Explain(q Query) Explanation {
	x := Explanation{Answer: v.Decide(q), Model: model.NoChoice}
	if v.rows != nil {
		x.Rows = v.rows.Explain(q)
	}
	if v.model == nil {
		return x
	}
	x.Candidates = v.model.Candidates(q.Call, q.Costs)
	if x.Model, x.Why = x.Choice, x.Abstention; !x.Asked {
		x.Model, x.Why = v.model.Choose(q.Call, q.Costs)
	}
	return x
}

// Asks returns the configuration that the deciding row asks for. If no row decides, it is that of the first row that
// matches and does not decide because of NCCL's costs. It is NoCell if that row allows several cells, or if there is
// no such row. available says whether the row decides.
func (v *EngineView) Asks(q Query, a Answer) (asks nccl.Config, available bool) {
	asks = nccl.Config{Cell: nccl.NoCell}
	if v.rows == nil {
		return asks, false
	}
	rule := a.Rule
	if rule < 0 {
		tried := v.rows.Explain(q)
		rule = slices.IndexFunc(tried, func(t Tried) bool { return t.Status >= RowUnavailable })
	}
	if rule >= 0 {
		r := &v.rows.policy.Rules[rule]
		asks = nccl.Config{Cell: r.Cells.cell(), Channels: int(r.Channels)}
	}
	return asks, asks.Known() && rule == a.Rule
}
