package agree

import "testing"

func TestCommunicatorName(t *testing.T) {
	for _, c := range []struct {
		names []string // by slot
		ranks int
		want  string
	}{
		{[]string{"dp", "dp"}, 2, "dp"},
		{[]string{"dp", "dp"}, 3, ""}, // one has not joined yet
		{[]string{"dp", "tp"}, 2, ""},
		{[]string{"", "dp"}, 2, ""},
		{[]string{"", ""}, 2, ""},
		{nil, 2, ""},
	} {
		comm := Communicator{Ranks: c.ranks}
		for i, name := range c.names {
			comm.Slots = append(comm.Slots, Slot{Index: i, Name: name})
		}
		if got := comm.Name(); got != c.want {
			t.Errorf("%q of %d ranks: %q, want %q", c.names, c.ranks, got, c.want)
		}
	}
}
