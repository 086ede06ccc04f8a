package dirstore

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func putAll(t *testing.T, s *Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if _, err := s.PutOnce(context.Background(), key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
}

func made(t *testing.T, s *Store, dir string) []string {
	t.Helper()
	found, err := s.Made(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for key, at := range found {
		if time.Since(at).Abs() > time.Minute {
			t.Errorf("%s was made at %v", key, at)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Who looks sees all records and keeps nobody from removing the directory.
func TestLook(t *testing.T) {
	parent := t.TempDir()
	if _, err := Look(filepath.Join(parent, "none")); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	s, err := Private(parent, "jobs", "me")
	if err != nil {
		t.Fatal(err)
	}
	putAll(t, s, "c/1-2/init", "c/1-2/slot/0", "p/1-2.1", "blob/abc")
	os.WriteFile(filepath.Join(s.Dir(), "c", tempPrefix+"x"), nil, 0o600)
	seen, err := Look(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if all := made(t, seen, "c"); !slices.Equal(all, []string{"c/1-2/init", "c/1-2/slot/0"}) {
		t.Errorf("%q", all)
	}
	if all := made(t, seen, "d"); len(all) != 0 {
		t.Errorf("%q", all)
	}
	if dirs, err := PrivateDirs(parent, os.Getuid()); err != nil || !slices.Equal(dirs, []string{s.Dir()}) {
		t.Errorf("%q, %v", dirs, err)
	}
	if dirs, err := PrivateDirs(parent, os.Getuid()+1); err != nil || len(dirs) != 0 {
		t.Errorf("another user's: %q, %v", dirs, err)
	}
	if Unused(s.Dir()) || RemoveUnused(s.Dir()) {
		t.Error("it is in use")
	}
	s.Close()
	if _, err := os.Stat(seen.Dir()); !os.IsNotExist(err) {
		t.Errorf("the last user has gone, and it is there: %v", err)
	}
	if all := made(t, seen, "c"); len(all) != 0 {
		t.Errorf("%q", all)
	}
	if _, err := os.Stat(seen.Dir()); !os.IsNotExist(err) {
		t.Errorf("looking has made it again: %v", err)
	}
}

// What a crash leaves is found and removed.
func TestRemoveUnused(t *testing.T) {
	parent := t.TempDir()
	s, err := Private(parent, "jobs", "me")
	if err != nil {
		t.Fatal(err)
	}
	putAll(t, s, "c/1-2/init")
	s.lock.Close() // as the kernel does
	if !Unused(s.Dir()) || !RemoveUnused(s.Dir()) {
		t.Error("it stays")
	}
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	early := filepath.Join(parent, "early") // before there was a lock
	os.Mkdir(early, 0o700)
	if !Unused(early) || !RemoveUnused(early) {
		t.Error("an empty one stays")
	}
}

// Sites give each job a folder. One that is used itself hides none below it, and what records lie in is no job's.
func TestBelow(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"c/0000000000000001-2/c", "p", "run7/c", "run7/old/c", "alice/run8/c", "alice/run9",
		"bob/blob", "a/b/deep/c", "blob/x/c"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("run7", filepath.Join(dir, "latest")), os.WriteFile(filepath.Join(dir, "alice/c"),
		nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	want := []string{dir, filepath.Join(dir, "alice/run8"), filepath.Join(dir, "bob"), filepath.Join(dir, "run7")}
	if found, unseen := Below(dir); !slices.Equal(found, want) || len(unseen) > 0 {
		t.Errorf("%q, want %q; %v", found, want, unseen)
	}
	forged := filepath.Join(dir, "run9\nall is well")
	if err := os.MkdirAll(filepath.Join(forged, "c"), 0o700); err != nil {
		t.Fatal(err)
	}
	if found, unseen := Below(dir); !slices.Equal(found, want) || len(unseen) != 1 ||
		strings.Contains(unseen[0].Error(), "\n") {
		t.Errorf("%q, %v", found, unseen)
	}
	if err := os.RemoveAll(forged); err != nil {
		t.Fatal(err)
	}
	if found, unseen := Below(filepath.Join(dir, "none")); len(found) > 0 || len(unseen) != 1 {
		t.Errorf("%q, %v", found, unseen)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(filepath.Join(dir, "alice"), 0); err != nil {
			t.Fatal(err)
		}
		if found, unseen := Below(dir); len(found) != 3 || len(unseen) != 1 {
			t.Errorf("%q, %v", found, unseen)
		}
	}
}
