package csvtable

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// Every error names file, line and column, or the file where there is no row at all.
func FuzzRead(f *testing.F) {
	f.Add("collective,bytes\nallreduce,1\n", 0)
	f.Add("# x\nBytes, collective\n\"a\n\",1\nx\n\"", 3)
	f.Add("collective,collective\n", 1)
	place := regexp.MustCompile(`^f\.csv(:[1-9][0-9]*:[1-9][0-9]*)?: `)
	f.Fuzz(func(t *testing.T, text string, before int) {
		before &= 0xff
		table, err := Read("f.csv", text, before, []string{"collective", "bytes", "calls"}, 2)
		if err == nil {
			for table.Next() {
				if table.Line() <= before || table.Line() > before+1+strings.Count(text, "\n") {
					t.Errorf("line %d of %q, which begins after %d", table.Line(), text, before)
				}
				if strings.TrimSpace(table.Field("collective")) != table.Field("collective") {
					t.Errorf("%q", table.Field("collective"))
				}
			}
			err = table.Err()
		}
		if err == nil {
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !place.MatchString(line) {
				t.Errorf("%q: the error names no place: %q", text, line)
			}
		}
	})
}

func BenchmarkWorstRead(b *testing.B) {
	const header = "collective,bytes\n"
	hostile.Benchmark(b, func(text []byte) error {
		table, err := Read("f.csv", string(text), 0, []string{"collective", "bytes", "calls"}, 2)
		if err != nil {
			return err
		}
		for table.Next() {
			table.Line()
			table.Field("collective")
		}
		return table.Err()
	},
		hostile.Text{Head: header, Unit: "a,1\n"}, hostile.Text{Head: header, Unit: "a\n"},
		hostile.Text{Head: header, Unit: "\"\n\",1\n"}, hostile.Text{Head: header, Unit: ","},
	)
}
