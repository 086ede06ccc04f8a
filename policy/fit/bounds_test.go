package fit

import (
	"fmt"
	"testing"
)

// Up to so many cells a set is fitted with processes, and of larger ones no curve has
// far more values than its group has measurements. Some groups are validated of each,
// the first among them.
func TestBounds(t *testing.T) {
	for _, test := range []struct {
		name      string
		rows      int
		sizes     int // of each configuration, none shared
		validated bool
		plain     bool
	}{
		{"a sweep", 3_000, 20, true, false},
		{"many cells", mostJointCells + 5_000, 20, false, true},
		{"few sizes", mostJointCells + 5_000, 3, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := NewPool()
			n := 0
			for s := range scattered(test.sizes) {
				p.Add(&s)
				if n++; n == test.rows {
					break
				}
			}
			groups := append(p.Set().Groups, &Group{Key: Key{4, 999, 999}}) // of which only the default was measured
			validated := bound(groups)
			last := len(groups) - 1
			if !validated[0] || validated[last] || validated[last-1] != test.validated {
				t.Errorf("validated: %v", validated)
			}
			for _, g := range groups[:last] {
				axis, _ := g.axis()
				if g.plain != test.plain || g.plain && len(axis)*len(g.Configs()) > mostTable*len(g.Cells) {
					t.Errorf("%s: plain %v, an axis of %d for %d configurations and %d cells", g.Key, g.plain, len(axis), len(g.Configs()), len(g.Cells))
				}
			}
			for _, cells := range groups[0].families() {
				if f := groups[0].fitFamily(cells, &layouts{}); test.plain && fmt.Sprintf("%T", f.predictor) != "*fit.interpolation" {
					t.Errorf("%s is fitted with a %T", cells[0].Config.FamilyKey, f.predictor)
				}
			}
		})
	}
}
