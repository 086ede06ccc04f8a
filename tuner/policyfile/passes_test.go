package policyfile

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// A file of passes names nothing outside of its directory. A file of another kind is told in a few lines.
func FuzzPassNames(f *testing.F) {
	f.Add("a.csv\ndefault\r\nb c.csv")
	f.Add(strings.Repeat("\n", 100))
	f.Add("/")
	f.Fuzz(func(t *testing.T, text string) {
		names, err := passNames("passes", text)
		if err != nil {
			if n := len(strings.Split(err.Error(), "\n")); n > mostFaults || !strings.HasPrefix(err.Error(), "passes") {
				t.Errorf("%d lines: %v", n, err)
			}
			return
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		for i, name := range names {
			if name != strings.TrimRight(lines[i], "\r") || filepath.Dir(filepath.Join("dir", name)) != "dir" {
				t.Errorf("line %d is %q, and read as %q", i+1, lines[i], name)
			}
		}
	})
}

func BenchmarkWorstPassNames(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		names, err := passNames("passes", string(text))
		if err == nil {
			err = fmt.Errorf("%d names", len(names))
		}
		return err
	},
		hostile.Text{Unit: "\n"}, hostile.Text{Unit: "x"}, hostile.Text{Unit: "../"}, hostile.Text{Unit: "default\n"},
	)
}
