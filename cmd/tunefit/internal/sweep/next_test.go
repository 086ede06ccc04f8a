package sweep

import (
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// A sweep that is given other sizes measures the default there, and each family, and nothing at the others.
func TestOtherSizesAreMeasured(t *testing.T) {
	o := optionsOf(t, t.TempDir(), 50)
	o.Sizes, o.SizesNamed = []uint64{1 << 20, 2 << 30, 4 << 30}, true
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b, err := s.next(o.Keys[0])
	if err != nil || b.Kind != Measure || len(b.Starts) != 1 || !slices.Equal(b.Starts[0].Sizes, o.Sizes[1:]) ||
		b.Starts[0].Passes[0].Policy != "" || len(b.Starts[0].Passes) < 6 {
		t.Errorf("%v, and next is %+v", err, b)
	}
}

// Counts of channels that are new since a verification are tried, too.
func TestOtherChannelsAreFresh(t *testing.T) {
	o := optionsOf(t, t.TempDir(), 3)
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b, err := s.next(o.Keys[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.journal.write(line{Batch: &b}); err != nil {
		t.Fatal(err)
	}
	if got := s.fresh(o.Keys[0]); len(got) > 0 {
		t.Errorf("fresh are %v", got)
	}
	o.Choices.Channels = []int{4, 8, 12, 64}
	if got := s.fresh(o.Keys[0]); !slices.Equal(got, []int{12, 64}) {
		t.Errorf("fresh are %v", got)
	}
}

// Where a start takes a minute besides its calls, a round has more candidates.
func TestDearStartsMeasureMore(t *testing.T) {
	s, err := Open(optionsOf(t, t.TempDir(), 3))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for seconds, want := range map[float64]int{6: 0, 90: 2 * fit.Wide} {
		s.journal.runs[0].Seconds = seconds
		if _, space, err := s.known(s.Keys[0]); err != nil || space.Wide != want {
			t.Errorf("a start of %v s: %v, a round has %d candidates, want %d", seconds, err, space.Wide, want)
		}
	}
}
