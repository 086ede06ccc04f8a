package bench

import (
	"strings"
	"testing"
)

// Lines with quotes and lines without are read alike and counted together.
func TestLinesOfCSV(t *testing.T) {
	const text = "collective,size_bytes,time_us,source\n# a comment\nallreduce,1024,10,\"two\nlines\"\r\n" +
		"allreduce,2048,11,plain\r\n\n\nallreduce,4096,12,\"a \"\"word\"\"\"\n# another\nallreduce,8192,late,s\n" +
		"allreduce,\"16384,13,s\n"
	r, err := Read(strings.NewReader(text), "x.csv", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, s := range r.Samples {
		sources = append(sources, s.Source)
	}
	if got := strings.Join(sources, "|"); got != "two\nlines|plain|a \"word\"" {
		t.Errorf("sources %q", got)
	}
	if r.Rows != 5 || len(r.Notes) != 2 || r.Notes[0].Line != 10 || r.Notes[1].Line != 11 {
		t.Errorf("%d rows, notes %v; want 5, of lines 10 and 11", r.Rows, r.Notes)
	}
}

// A line that is too long ends the reading.
func TestLongLine(t *testing.T) {
	text := "collective,size_bytes,time_us\nallreduce,1024,10\n\nallreduce" + strings.Repeat(",", 2<<20)
	_, err := Read(strings.NewReader(text), "x.csv", Options{})
	if want := "x.csv:4: more than 1 MiB in a line (allowed: up to 1 MiB)"; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}
