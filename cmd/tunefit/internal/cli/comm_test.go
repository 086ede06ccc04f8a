package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// What --comm takes, and what it says of the rest.
func TestParseComm(t *testing.T) {
	for text, want := range map[string]string{
		"1x2":        "1x2 2",
		"4x8":        "4x8 32",
		"2x1":        "2x1 2",
		"2097152x8":  "2097152x8 16777216",
		"2097153x8":  "not NODESxRANKS_PER_NODE with at least 2 ranks (needed:",
		"16777216x1": "16777216x1 16777216",
		"1x1":        "not NODESxRANKS_PER_NODE with at least 2 ranks (needed:",
		"0x8":        "not NODESxRANKS_PER_NODE",
		"2x0":        "not NODESxRANKS_PER_NODE",
		"16777217x1": "not NODESxRANKS_PER_NODE",
		"4:8":        "(needed: as 1x8, or 4x8 for 4 nodes of 8 ranks)",
		"4x8 ":       "with at least 2 ranks (needed:",
		"2":          "with at least 2 ranks (needed:",
		"7":          "with at least 2 ranks (needed:",
		"16":         "with at least 2 ranks (needed:",
		"1":          "with at least 2 ranks (needed:",
		"16777216":   "with at least 2 ranks (needed:",
		"16777217":   "with at least 2 ranks (needed:",
		"":           "with at least 2 ranks (needed:",
	} {
		s, err := ParseComm(text)
		got := fmt.Sprint(s, " ", s.Ranks)
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// What --sizes takes, and what it says of the rest.
func TestParseSizes(t *testing.T) {
	for text, want := range map[string]string{
		"4K":          "[4096] false",
		"1M, 4K,1M":   "[4096 1048576] false",
		"0":           "[0] false",
		"1K-4K":       "[1024 2048 4096] true",
		"1000 - 4000": "[1000 2000 4000] true",
		"1K-3K":       "[1024 2048] true",
		"1-1":         "[1] true",
		"512T-1024T":  "[562949953421312 1125899906842624] true",
		"1T-1025T":    "1T-1025T: a range runs from 1 or more up to at most 1024T",
		"0-4K":        "0-4K: a range runs from 1 or more",
		"4M-1K":       "a range runs from its smaller size to its larger, as 1KiB-4MiB",
		"x-4K":        "x-4K: a range's first size: ",
		"4K-x":        "4K-x: a range's last size: ",
		"4K-":         "4K-: a range's last size: ",
		"4K,x":        `"x"`,
	} {
		sizes, isRange, err := ParseSizes(text)
		got := fmt.Sprint(sizes, " ", isRange)
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestSizeRange(t *testing.T) {
	if got := SizeRange(1024, 1024) + "; " + SizeRange(1024, 1<<20); got != "1KiB; 1KiB - 1MiB" {
		t.Error(got)
	}
}

// What is asked about where flags do not say it, and where they do.
func TestCallFlags(t *testing.T) {
	named := []nccl.Comm{{Nodes: 3, Ranks: 12}}
	for _, test := range []struct {
		args  string
		named []nccl.Comm
		want  string
	}{
		{"", nil, "[allreduce allgather reducescatter broadcast reduce] 23 from 1KiB to 4GiB [1x8 2x8]"},
		{"", named, "[allreduce allgather reducescatter broadcast reduce] 23 from 1KiB to 4GiB [3x4]"},
		{"--coll Reduce,allgather --sizes 2M,4K --comm 4x8,1x2", named,
			"[reduce allgather] 2 from 4KiB to 2MiB [4x8 1x2]"},
		{"--coll alreduce", nil, `"alreduce"`},
		{"--comm 1x8,8", nil, `--comm "8": not`},
		{"--sizes 4K-1K", nil, "as 1KiB-4KiB"},
	} {
		var f CallFlags
		cmd := &cobra.Command{}
		f.Register(cmd)
		if err := cmd.ParseFlags(strings.Fields(test.args)); err != nil {
			t.Fatal(err)
		}
		colls, err1 := f.ParseColls()
		sizes, _, err2 := f.ParseSizes()
		shapes, err3 := f.ParseComms(test.named)
		if err := errors.Join(err1, err2, err3); err != nil {
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %s", test.args, err, test.want)
			}
			continue
		}
		got := fmt.Sprintf("%v %d from %s to %s %v", colls, len(sizes), nccl.FormatBytes(sizes[0]),
			nccl.FormatBytes(sizes[len(sizes)-1]), shapes)
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.args, got, test.want)
		}
	}
}
