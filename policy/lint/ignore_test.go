package lint

import (
	"slices"
	"testing"
)

// A rule is silenced for one row, and only that rule.
func TestIgnore(t *testing.T) {
	rows := []string{
		"# tunefit:ignore channels-above-64, chunk-not-multiple -- as measured on RCCL\n" +
			"# another comment\n" +
			"allreduce,0,1K,ring,ll128,96,2,8,64K,\n",
		"allreduce,1025,2K,ring,ll128,96,2,8,64K,why not; tunefit:ignore channels-above-64\n",
		"allreduce,2049,4K,ring,ll128,96,2,8,64K,\n",
	}
	var got []string
	for _, f := range Check("p.csv", []byte(header+rows[0]+rows[1]+rows[2]), Options{}) {
		got = append(got, f.Position()+" "+f.Rule)
	}
	want := []string{"p.csv:5:9 chunk-not-multiple", "p.csv:6:6 channels-above-64", "p.csv:6:9 chunk-not-multiple"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is silenced is not fixed either.
func TestIgnoredIsNotFixed(t *testing.T) {
	text := header + "# tunefit:ignore channels-above-64\nallreduce,0,1K,ring,,96,2,8,,\n"
	fixed, after, err := Fix("p.csv", []byte(text), Options{})
	if err != nil || len(fixed) != 0 || string(after) != text {
		t.Errorf("%v %v\n%s", err, fixed, after)
	}
}
