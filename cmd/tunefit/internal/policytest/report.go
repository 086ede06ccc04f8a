package policytest

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// Write prints what failed, and how many passed.
func Write(w io.Writer, results []Result) error {
	failed := 0
	for _, r := range results {
		if r.Passed {
			continue
		}
		failed++
		fmt.Fprintf(w, "FAIL %s:%d: %s\n", r.File, r.Line, r.Name)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for i, m := range r.Mismatch {
			if i > 0 && slices.Equal(m.Fields, r.Mismatch[i-1].Fields) {
				continue
			}
			more := ""
			if n := alikeFrom(r.Mismatch[i:]); n > 1 {
				more = fmt.Sprintf(", and %d more sizes", n-1)
			}
			tw.Flush()
			fmt.Fprintf(w, "  %s%s:\n", m.Call, more)
			for _, f := range m.Fields {
				fmt.Fprintf(tw, "    %s\texpected %s\tgot %s\n", f.Field, f.Expected, f.Got)
			}
		}
		tw.Flush()
	}
	if failed > 0 {
		_, err := fmt.Fprintf(w, "FAIL: %d of %s\n", failed, cli.CountOf(len(results), "test"))
		return err
	}
	_, err := fmt.Fprintf(w, "ok: %s\n", cli.CountOf(len(results), "test"))
	return err
}

// alikeFrom counts the mismatches, from the first on, that are its like.
func alikeFrom(all []mismatch) (n int) {
	for n < len(all) && slices.Equal(all[n].Fields, all[0].Fields) {
		n++
	}
	return n
}
