package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that a job has open keeps its content; the next one finds the new file, with its permissions.
func TestCopyTree(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	for _, err := range []error{
		os.Mkdir(filepath.Join(from, "bin"), 0o755), os.WriteFile(filepath.Join(from, "bin/tunefit"), []byte("new"), 0o755),
		os.MkdirAll(filepath.Join(to, "bin"), 0o755), os.WriteFile(filepath.Join(to, "bin/tunefit"), []byte("old"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	open, err := os.Open(filepath.Join(to, "bin/tunefit"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 3)
	if _, err := open.Read(old); err != nil || string(old) != "old" {
		t.Errorf("an open file has now %q, %v", old, err)
	}
	content, err := os.ReadFile(filepath.Join(to, "bin/tunefit"))
	info, err2 := os.Stat(filepath.Join(to, "bin/tunefit"))
	if err != nil || err2 != nil || string(content) != "new" || info.Mode().Perm() != 0o755 {
		t.Errorf("%q, %v, %v, %v", content, info, err, err2)
	}
	if left, _ := os.ReadDir(filepath.Join(to, "bin")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	if err := copyTree(filepath.Join(from, "none"), to); err == nil {
		t.Error("a missing tree is copied")
	}
}
