package bench

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the .want files")

// account shows all that was read of a file.
func account(r *Result, err error) string {
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %d kept, %d rejected\n", r.Format, len(r.Samples), r.NumRejected())
	for o, n := range r.Labels {
		if n > 0 {
			fmt.Fprintf(&b, "labels from %s: %d\n", Origin(o), n)
		}
	}
	for _, rej := range r.Rejected {
		fmt.Fprintf(&b, "rejected %d from line %d: %s\n", rej.Count, rej.Line, rej.Reason)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s\n", n)
	}
	if err := WriteTidy(&b, r.Samples); err != nil {
		return err.Error()
	}
	return b.String()
}

// Each fixture holds one format or hazard; its .want file is what a user gets.
func TestReadFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".want") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// The name without a folder, so that the sources are the same everywhere.
			got := account(Read(bytes.NewReader(text), filepath.Base(file), Options{}))
			marked := append([]byte("\ufeff"), text...) // as some editors write it
			if m := account(Read(bytes.NewReader(marked), filepath.Base(file), Options{})); m != got {
				t.Errorf("with a byte order mark it is\n%s\nwithout\n%s", m, got)
			}
			if *update {
				if err := os.WriteFile(file+".want", []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file + ".want")
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// More times than memory has room for end the reading, whatever the format.
func TestTooMany(t *testing.T) {
	defer func(before int) { mostSamples = before }(mostSamples)
	mostSamples = 10
	const tooMany = "more than 10 measurements in one file (needed: smaller files)"
	row := "1024 256 float sum -1 20.0 0.05 0.09 0 20.0 0.05 0.09 0\n"
	result := `{"size":1024,"count":256,"type":"float","redop":"sum","root":"-1","out_of_place":{"time":20}}`
	for _, c := range []struct{ format, begin, row, end, want string }{
		{"text", head("all_reduce_perf", 2, 8), row, "", "x:"},
		{"csv", "collective,size_bytes,time_us\n", "allreduce,1024,10\n", "", "x:12: " + tooMany},
		{"json", `{"results":[` + result, "," + result, "]}", "x: at byte "},
	} {
		for rows, want := range map[int]string{4: "", 30: c.want} {
			_, err := Read(strings.NewReader(c.begin+strings.Repeat(c.row, rows)+c.end), "x", Options{})
			if want == "" && err != nil ||
				want != "" &&
					(err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), tooMany)) {
				t.Errorf("%s, %d rows: %v; want %q", c.format, rows, err, want)
			}
		}
	}
}
