package compare

import "encoding/json"

type tableJSON struct {
	Alpha       float64      `json:"alpha"`
	Threshold   float64      `json:"threshold"`
	Before      Side         `json:"before"`
	After       Side         `json:"after"`
	Common      []string     `json:"common"`
	Differences []Difference `json:"differences"`
	Groups      []groupJSON  `json:"groups"`
	Overall     *meanJSON    `json:"geomean,omitempty"` // of measurements
	Step        *stepJSON    `json:"step,omitempty"`    // of job profiles
	Sizes       int          `json:"sizes"`
	Faster      int          `json:"faster"`
	Slower      int          `json:"slower"`
	Beyond      int          `json:"slower_than_threshold"`
	MeanBeyond  bool         `json:"geomean_slower_than_threshold"`
	LeftOut     []LeftOut    `json:"left_out"`
	Notes       []string     `json:"notes"`
}

type groupJSON struct {
	Collective string    `json:"collective"`
	Nodes      int       `json:"nodes,omitempty"`
	Ranks      int       `json:"ranks,omitempty"`
	DType      string    `json:"dtype,omitempty"`
	RedOp      string    `json:"redop,omitempty"`
	InPlace    bool      `json:"in_place"`
	Paired     bool      `json:"paired"`
	Sizes      []Row     `json:"sizes"`
	Mean       *meanJSON `json:"geomean,omitempty"`
	Step       *stepJSON `json:"step,omitempty"`
}

type meanJSON struct {
	Sizes int `json:"sizes"`
	Estimate
	BySizes bool `json:"sizes_are_repetitions"`
}

// stepJSON is the communication of a step.
type stepJSON struct {
	Before float64 `json:"before_us"`
	After  float64 `json:"after_us"`
	Sizes  int     `json:"sizes"`
	Estimate
}

// json is one of both: of profiles that do not tell the calls of a step none.
func (m *Mean) json(jobs bool) (*meanJSON, *stepJSON) {
	switch {
	case !jobs:
		return &meanJSON{m.Sizes, m.Estimate, m.BySizes}, nil
	case m.Sizes > 0:
		return nil, &stepJSON{m.Before, m.After, m.Sizes, m.Estimate}
	}
	return nil, nil
}

// MarshalJSON is for programs that read the table.
func (t *Table) MarshalJSON() ([]byte, error) {
	j := tableJSON{
		Alpha: t.Alpha, Threshold: t.Threshold, Before: t.Sides[0], After: t.Sides[1],
		Common: append([]string{}, t.Common...), Notes: append([]string{}, t.Notes...), // empty lists are [], not null
		Differences: append([]Difference{}, t.Differences...), Groups: []groupJSON{},
		LeftOut: append([]LeftOut{}, t.LeftOut...),
	}
	j.Overall, j.Step = t.Overall.json(t.jobs)
	for i := range t.Groups {
		g := &t.Groups[i]
		of := groupJSON{
			Collective: g.Coll.String(), Nodes: g.Nodes, Ranks: g.Ranks, DType: g.DType, RedOp: g.RedOp,
			InPlace: g.InPlace,
			Paired:  g.Paired, Sizes: g.Rows,
		}
		of.Mean, of.Step = g.Mean.json(t.jobs)
		j.Groups = append(j.Groups, of)
	}
	j.Slower, j.Sizes = t.Count(Slower)
	j.Faster, _ = t.Count(Faster)
	j.Beyond, j.MeanBeyond = t.Slower()
	return json.Marshal(j)
}
