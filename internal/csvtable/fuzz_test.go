package csvtable

import (
	"regexp"
	"strings"
	"testing"
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
