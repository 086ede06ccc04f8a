package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	for _, text := range []string{"a longer first", "second"} {
		if err := Write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		info, errStat := os.Stat(name)
		if err != nil || errStat != nil || string(got) != text || info.Mode().Perm() != 0o644 {
			t.Errorf("%q, %v, %v, want %q", got, err, errStat, text)
		}
	}
	// A place that cannot be taken keeps what it has, and nothing else stays.
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if Write(taken, nil) == nil || Write(filepath.Join(dir, "nowhere", "f"), nil) == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v", left)
	}
}
