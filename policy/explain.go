package policy

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
)

// Tried is what became of one rule for one query, and why.
type Tried struct {
	Rule    int // index into Policy.Rules
	Verdict Verdict
	Misses  []Miss  // RowDiffers: each column that does not match
	Values  []Value // of the names in the rule's condition, where that was looked at
	Err     error   // RowWhenFails: what cannot be computed
}

// Verdict says what a rule comes to. The zero value decides.
type Verdict int8

const (
	RowDecides     Verdict = iota
	RowLater               // it could decide, but one before it does
	RowDiffers             // a column does not match
	RowWhenUnknown         // its condition mentions what is not known here
	RowWhenFails           // its condition cannot be computed
	RowWhenFalse
	RowUnavailable // NCCL offers nothing of what it asks for
	RowUnpriced    // it asks for the cheapest of several, and costs are not known
	RowBeaten      // another cell costs nothing, and no positive cost beats that
)

var verdicts = [...]string{
	RowDecides:     "decides",
	RowLater:       "matches, an earlier row decides",
	RowDiffers:     "does not match",
	RowWhenUnknown: "its condition mentions what is not known here",
	RowWhenFails:   "its condition cannot be computed",
	RowWhenFalse:   "its condition does not hold",
	RowUnavailable: "NCCL offers nothing of what it asks for",
	RowUnpriced:    "it asks for the cheapest of several, and NCCL does not tell their costs",
	RowBeaten:      "another choice costs NCCL nothing, which cannot be beaten",
}

func (v Verdict) String() string { return verdicts[v] }

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

// Explain says of each rule, in the file's order, what became of it: what Decide asks, with
// reasons.
func (v *View) Explain(q Query) []Tried {
	x := explainer{view: v, q: &q, evaluator: when.NewEvaluator(envOf(v.comm)), decided: -1}
	x.evaluator.Next(q.Coll, q.Bytes, q.PipeOps)
	var own Decision
	own.setNCCLsOwn(q.Costs)
	x.offersNothing = own.offersNothing(q.Costs)
	all := make([]Tried, len(v.policy.Rules))
	for i := range all {
		all[i] = x.try(i)
	}
	return all
}

type explainer struct {
	view          *View
	q             *Query
	evaluator     *when.Evaluator
	offersNothing bool
	decided       int // -1: no rule yet
}

func (x *explainer) try(i int) Tried {
	r := &x.view.policy.Rules[i]
	t := Tried{Rule: i}
	if t.Misses = r.misses(x.q, x.view.comm); len(t.Misses) > 0 {
		t.Verdict = RowDiffers
		return t
	}
	if r.When != nil {
		if t.Verdict = x.condition(r.When, &t); t.Verdict != RowDecides {
			return t
		}
	}
	_, ok := x.view.apply(i, x.q)
	switch {
	case x.offersNothing:
		t.Verdict = RowUnavailable
	case ok && x.decided >= 0:
		t.Verdict = RowLater
	case ok:
		x.decided = i
	case x.q.Costs.AvailableOnly && !r.Cells.single():
		t.Verdict = RowUnpriced
	default:
		t.Verdict = RowBeaten
		if _, offered := r.Cells.cheapest(x.q.Costs); !offered {
			t.Verdict = RowUnavailable
		}
	}
	return t
}

// condition evaluates the condition of a rule; RowDecides: it holds.
func (x *explainer) condition(c *when.Condition, t *Tried) Verdict {
	verdict := RowDecides
	for _, name := range c.Names {
		v := Value{name, x.evaluator.Value(name)}
		t.Values = append(t.Values, v)
		if v.Value == nil {
			verdict = RowWhenUnknown
		}
	}
	if verdict != RowDecides {
		return verdict
	}
	holds, err := x.evaluator.Holds(c)
	switch t.Err = err; {
	case err != nil:
		return RowWhenFails
	case !holds:
		return RowWhenFalse
	}
	return RowDecides
}

// Explanation is the way to an Answer.
type Explanation struct {
	Answer
	Rows []Tried // one per rule; nil without a policy
	// Model and Why are what the model says, also where a row decides and nobody asks it;
	// Candidates what it chose from. Without a model there are none.
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
