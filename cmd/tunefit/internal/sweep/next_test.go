package sweep

import (
	"strings"
	"testing"
)

// A sweep that goes on at sizes of which the default has none ends. Runs of no size would be planned for ever.
func TestSizesWithoutADefault(t *testing.T) {
	o := optionsOf(t, t.TempDir(), 1)
	o.Sizes, o.SizesNamed = []uint64{2 << 30, 4 << 30}, true
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b, err := s.next(o.Keys[0])
	if err == nil || !strings.Contains(err.Error(), "not measured at any of them (needed: some of ") {
		t.Errorf("%v, and next is %+v", err, b)
	}
}
