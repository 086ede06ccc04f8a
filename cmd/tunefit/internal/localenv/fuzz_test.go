package localenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// Files of variables: each entry is on the line that it names, and the first one of a name counts.
func FuzzConf(f *testing.F) {
	f.Add("NCCL_DEBUG=WARN\n#x=y\nA =1\nA =2\n=\n")
	f.Add("A=\x00\r\nB\n" + strings.Repeat("x", 2000) + "=1")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(dir, "nccl.conf")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		e := ReadEnvironment([]string{"A=0"}, "", file)
		if e.Get("A") != "0" || len(e.Files) != 1 {
			t.Fatalf("%+v", e)
		}
		lines := strings.Split(text, "\n")
		for _, entry := range e.Files[0].Entries {
			if line := lines[entry.Line-1]; !strings.HasPrefix(line, entry.Name) || !strings.Contains(line, entry.Value) {
				t.Errorf("line %d is %q: %+v", entry.Line, line, entry)
			}
			if !entry.Beaten && e.Vars[entry.Name] != entry.Setting {
				t.Errorf("%+v counts, and the variable is %+v", entry, e.Vars[entry.Name])
			}
			if !strings.Contains(e.Show(entry.Name), entry.Name) {
				t.Error(e.Show(entry.Name))
			}
		}
	})
}

func BenchmarkWorstConf(b *testing.B) {
	file := filepath.Join(b.TempDir(), "nccl.conf")
	hostile.Benchmark(b, func(text []byte) error {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			b.Fatal(err)
		}
		e := ReadEnvironment([]string{"A=0"}, "", file)
		for _, entry := range e.Files[0].Entries {
			e.Show(entry.Name)
		}
		return nil
	}, hostile.Text{Unit: "A=1\n"})
}
