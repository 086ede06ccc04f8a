package lint

import (
	"slices"
	"testing"
)

// A rule is silenced for one row, and only that rule.
func TestIgnore(t *testing.T) {
	rows := []string{
		"# tunefit:ignore channels-above-64, chunk-below-grain -- as measured on RCCL\n" +
			"# another comment\n" +
			"allreduce,0,1K,ring,ll128,96,2,8,1K,\n",
		"allreduce,1025,2K,ring,ll128,96,2,8,1K,why not; tunefit:ignore channels-above-64\n",
		"allreduce,2049,4K,ring,ll128,96,2,8,1K,\n",
	}
	var got []string
	for _, f := range Check("p.csv", []byte(header+rows[0]+rows[1]+rows[2]), Options{}) {
		got = append(got, f.Position()+" "+f.Rule)
	}
	want := []string{"p.csv:5:9 chunk-below-grain", "p.csv:6:6 channels-above-64", "p.csv:6:9 chunk-below-grain"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
