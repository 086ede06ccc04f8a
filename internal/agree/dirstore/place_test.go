package dirstore

import (
	"os"
	"path/filepath"
	"testing"
)

func TestUsable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for parent, want := range map[string]bool{dir: true, file: false, filepath.Join(dir, "absent"): false} {
		if err := Usable(parent); (err == nil) != want {
			t.Errorf("%s: %v", parent, err)
		}
	}
}

// A directory is in its place as long as whoever opens it finds the same.
func TestInPlace(t *testing.T) {
	private := func(t *testing.T) (*Store, error) { return Private(t.TempDir(), "x", "me") }
	shared := func(t *testing.T) (*Store, error) { return Open(filepath.Join(t.TempDir(), "meet"), "me") }
	for _, c := range []struct {
		name  string
		open  func(t *testing.T) (*Store, error)
		clean func(dir string) error
		want  bool
	}{
		{"private", private, func(string) error { return nil }, true},
		{"private, removed", private, os.RemoveAll, false},
		{"private, its lock removed", private,
			func(dir string) error { return os.Remove(filepath.Join(dir, lockName)) }, false},
		{"private, its lock replaced", private, func(dir string) error {
			lock := filepath.Join(dir, lockName)
			os.Rename(lock, lock+".old")
			return os.WriteFile(lock, nil, 0o600)
		}, false},
		{"shared", shared, func(string) error { return nil }, true},
		{"shared, with records", shared, func(dir string) error { return os.Mkdir(filepath.Join(dir, "c"), 0o700) },
			true},
		{"shared, removed", shared, os.RemoveAll, false},
		{"shared, made anew", shared, func(dir string) error {
			os.Rename(dir, dir+".old")
			return os.Mkdir(dir, 0o700)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := c.open(t)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := c.clean(s.Dir()); err != nil {
				t.Fatal(err)
			}
			if err := s.InPlace(t.Context()); (err == nil) != c.want {
				t.Errorf("%v", err)
			}
		})
	}
}
