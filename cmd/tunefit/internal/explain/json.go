package explain

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// PathJSON is a Path as explain --json prints it.
type PathJSON struct {
	Decision ask.Outcome    `json:"decision"`
	Rows     []rowJSON      `json:"rows,omitempty"`
	Model    *modelPathJSON `json:"model,omitempty"`
	NCCL     []estimate     `json:"nccl_estimates"`
	Notes    []string       `json:"notes,omitempty"`
}

type rowJSON struct {
	Row     int            `json:"row"` // line of the file
	Verdict string         `json:"verdict"`
	Asks    string         `json:"asks"`
	Misses  []policy.Miss  `json:"misses,omitempty"`
	When    string         `json:"when,omitempty"`
	Values  []policy.Value `json:"values,omitempty"`
	Error   string         `json:"error,omitempty"`
}

type modelPathJSON struct {
	File       string          `json:"file"`
	Machine    string          `json:"machine"`
	Asked      bool            `json:"asked"`              // false where a row decides
	Abstains   string          `json:"abstains,omitempty"` // why; left out: it decides
	ToDo       []string        `json:"to_do,omitempty"`
	Gain       *float64        `json:"gain,omitempty"`   // of the fastest over NCCL's choice
	Needed     *float64        `json:"needed,omitempty"` // least gain at which the model decides
	Default    *candidateJSON  `json:"default,omitempty"`
	Candidates []candidateJSON `json:"candidates,omitempty"`
}

type candidateJSON struct {
	nccl.Cell
	Channels int     `json:"channels,omitempty"` // left out: NCCL's own count
	Micros   float64 `json:"us,omitempty"`       // left out: not known
	Sigma    float64 `json:"sigma,omitempty"`
	Barred   string  `json:"barred,omitempty"` // why it may not be chosen
}

// JSON returns the path and notes.
func (p *Path) JSON(notes []string) PathJSON {
	j := PathJSON{Decision: p.Outcome, NCCL: p.estimates(), Notes: notes}
	for _, t := range p.Rows {
		rule := &p.Engine.Policy.Rules[t.Rule]
		r := rowJSON{Row: rule.Line, Verdict: t.Status.String(), Asks: rule.Asks(), Misses: t.Misses, Values: t.Values}
		if rule.When != nil {
			r.When = rule.When.String()
		}
		if t.Err != nil {
			r.Error = t.Err.Error()
		}
		j.Rows = append(j.Rows, r)
	}
	if p.Files.Model != "" {
		j.Model = p.modelJSON()
	}
	return j
}

func (p *Path) modelJSON() *modelPathJSON {
	m := &modelPathJSON{File: p.Files.Model, Machine: "the model " + p.Engine.Standing.String(), Asked: p.Asked}
	if p.Engine.Model == nil {
		m.Abstains = m.Machine
		return m
	}
	m.Abstains, m.ToDo = p.Why.String(), p.advice()
	if d := p.Model; !d.Default.Unknown() {
		m.Default = &candidateJSON{Cell: p.Outcome.NCCL.Cell, Micros: d.Default.Micros(), Sigma: d.Default.Sigma}
		if d.Needed > 0 {
			gain, needed := d.Gain(), d.NeededGain()
			m.Gain, m.Needed = &gain, &needed
		}
	}
	for _, c := range p.Candidates {
		cj := candidateJSON{Cell: c.Cell, Channels: c.Channels, Barred: c.Bar.String()}
		if !c.Unknown() {
			cj.Micros, cj.Sigma = c.Micros(), c.Sigma
		}
		m.Candidates = append(m.Candidates, cj)
	}
	return m
}
