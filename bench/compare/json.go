package compare

import "encoding/json"

// MarshalJSON adds the counts to what is in the table, and names the sides.
func (t *Table) MarshalJSON() ([]byte, error) {
	type fields Table // without this method
	j := struct {
		Before Side `json:"before"`
		After  Side `json:"after"`
		*fields
		Sizes      int  `json:"sizes"`
		Faster     int  `json:"faster"`
		Slower     int  `json:"slower"`
		Beyond     int  `json:"slower_than_threshold"`
		MeanBeyond bool `json:"geomean_slower_than_threshold"`
	}{Before: t.Sides[0], After: t.Sides[1], fields: (*fields)(t)}
	j.Slower, j.Sizes = t.Count(Slower)
	j.Faster, _ = t.Count(Faster)
	j.Beyond, j.MeanBeyond = t.Slower()
	return json.Marshal(j)
}
