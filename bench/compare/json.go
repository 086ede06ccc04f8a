package compare

import "encoding/json"

type tableJSON struct {
	Threshold   float64      `json:"threshold"`
	Before      Side         `json:"before"`
	After       Side         `json:"after"`
	Common      []string     `json:"common"`
	Differences []Difference `json:"differences"`
	Groups      []groupJSON  `json:"groups"`
	Overall     Mean         `json:"geomean"`
	Sizes       int          `json:"sizes"`
	Faster      int          `json:"faster"`
	Slower      int          `json:"slower"`
	Beyond      int          `json:"slower_than_threshold"`
	MeanBeyond  bool         `json:"geomean_slower_than_threshold"`
	LeftOut     []LeftOut    `json:"left_out"`
	Notes       []string     `json:"notes"`
}

type groupJSON struct {
	Collective string     `json:"collective"`
	Nodes      int        `json:"nodes,omitempty"`
	Ranks      int        `json:"ranks,omitempty"`
	DType      string     `json:"dtype,omitempty"`
	RedOp      string     `json:"redop,omitempty"`
	InPlace    bool       `json:"in_place"`
	Paired     bool       `json:"paired"`
	Sizes      []Row      `json:"sizes"`
	Mean       Mean       `json:"geomean"`
	Unsteady   []Unsteady `json:"unsteady"`
}

// MarshalJSON is for programs that read the table.
func (t *Table) MarshalJSON() ([]byte, error) {
	j := tableJSON{
		Threshold: t.Threshold, Before: t.Sides[0], After: t.Sides[1],
		Common: append([]string{}, t.Common...), Notes: append([]string{}, t.Notes...), // empty lists are [], not null
		Differences: append([]Difference{}, t.Differences...), Groups: []groupJSON{},
		LeftOut: append([]LeftOut{}, t.LeftOut...), Overall: t.Overall,
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		j.Groups = append(j.Groups, groupJSON{
			Collective: g.Coll.String(), Nodes: g.Nodes, Ranks: g.Ranks, DType: g.DType, RedOp: g.RedOp,
			InPlace: g.InPlace, Paired: g.Paired, Sizes: g.Rows, Mean: g.Mean,
			Unsteady: append([]Unsteady{}, g.Unsteady...),
		})
	}
	j.Slower, j.Sizes = t.Count(Slower)
	j.Faster, _ = t.Count(Faster)
	j.Beyond, j.MeanBeyond = t.Slower()
	return json.Marshal(j)
}
