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
	for _, n := range append(r.Notes, r.MalformedNotes()...) {
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
