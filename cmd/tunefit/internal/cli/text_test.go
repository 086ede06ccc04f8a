package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A cell holds what it was given, whatever that is.
func TestTable(t *testing.T) {
	var out strings.Builder
	tw := NewTable(&out)
	tw.Row("host", "µs")
	tw.Row("a\x1b[2J\nb\tc", 1.5)
	tw.Row()
	tw.Flush()
	if want := "host" + strings.Repeat(" ", 22) + "µs\n" + `a\u001b[2J\u000ab\u0009c  1.5` +
		"\n\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// Nothing lines up cells that are not escaped.
func TestTablesAreOurs(t *testing.T) {
	const own = "cmd/tunefit/internal/cli/table.go"
	root, n := os.DirFS("../../../.."), 0
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		if n++; strings.Contains(string(text), `"text/tabwriter"`) && path != own {
			t.Errorf("%s imports text/tabwriter (needed: cli.NewTable)", path)
		}
		return err
	})
	if err != nil || n < 100 {
		t.Errorf("%d files, %v", n, err)
	}
}
