package dirstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree"
)

var _ agree.Store = (*Store)(nil)

func open(t *testing.T, dir, identity string) *Store {
	t.Helper()
	s, err := Open(dir, identity)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, key, value string) string {
	t.Helper()
	stands, err := s.PutOnce(t.Context(), key, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return string(stands)
}

// temporaries are files that are no records.
func temporaries(t *testing.T, dir string) (names []string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), tempPrefix) {
			names = append(names, path)
		}
		return nil
	})
	return names
}

func TestFirstPutStands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	one, two := open(t, dir, "one"), open(t, dir, "two")
	if got := put(t, one, "c/x/d/1", "commit"); got != "commit" {
		t.Errorf("the first put stands as %q", got)
	}
	if got := put(t, two, "c/x/d/1", "abort"); got != "commit" {
		t.Errorf("the second put finds %q", got)
	}
	if got := put(t, one, "c/x/d/1", "commit"); got != "commit" {
		t.Errorf("the repeated put finds %q", got)
	}
	value, found, err := two.Get(t.Context(), "c/x/d/1")
	if string(value) != "commit" || !found || err != nil {
		t.Errorf("Get: %q, %v, %v", value, found, err)
	}
	if _, found, err := two.Get(t.Context(), "c/x/d/2"); found || err != nil {
		t.Errorf("Get of no record: %v, %v", found, err)
	}
	put(t, two, "c/x/d/3", "")
	names, err := one.List(t.Context(), "c/x/d")
	if slices.Sort(names); !slices.Equal(names, []string{"1", "3"}) || err != nil {
		t.Errorf("List: %q, %v", names, err)
	}
	if names, err := one.List(t.Context(), "p"); len(names) > 0 || err != nil {
		t.Errorf("List of no directory: %q, %v", names, err)
	}
	if err := one.Remove(t.Context(), "c/x/d/3"); err != nil {
		t.Error(err)
	}
	if names, _ := one.List(t.Context(), "c/x/d"); len(names) != 1 {
		t.Errorf("List after Remove: %q", names)
	}
	if left := temporaries(t, dir); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

func TestKeysStayInside(t *testing.T) {
	s := open(t, t.TempDir(), "one")
	for _, key := range []string{"../x", "/etc/x", "a/../../x", ""} {
		if _, err := s.PutOnce(t.Context(), key, nil); err == nil {
			t.Errorf("%q is taken for a key", key)
		}
	}
}

func TestPermissionsArePrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "store")
	put(t, open(t, dir, "one"), "c/x/init", "A")
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		return nil
	})
}

func TestMissingRootIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, "one")
	put(t, s, "c/x/d/1", "commit")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), "c/x/d/1"); err == nil {
		t.Error("Get takes a lost store for a missing record")
	}
	if _, err := s.List(t.Context(), "p"); err == nil {
		t.Error("List takes a lost store for an empty one")
	}
	if _, err := s.PutOnce(t.Context(), "c/x/d/1", []byte("abort")); err == nil {
		t.Error("PutOnce makes a new store where the old one was")
	}
}

func TestGoroutinesRace(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		key := fmt.Sprintf("c/x/slot/%d", i)
		stands := make([]string, 8)
		var all sync.WaitGroup
		for r := range stands {
			s := open(t, dir, fmt.Sprint(r))
			all.Go(func() {
				if v, err := s.PutOnce(t.Context(), key, []byte(fmt.Sprint(r))); err == nil {
					stands[r] = string(v)
				}
			})
		}
		all.Wait()
		if stands[0] == "" || slices.ContainsFunc(stands, func(s string) bool { return s != "" && s != stands[0] }) {
			t.Fatalf("%s: %q", key, stands)
		}
	}
}

func TestHangingOperationsAreLeftBehind(t *testing.T) {
	s := open(t, t.TempDir(), "one")
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 * maxBusy {
		_, err := do(ctx, s, func() (int, error) { <-release; return 0, nil })
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if n := len(s.busy); n > maxBusy {
		t.Errorf("%d operations hang", n)
	}
	close(release)
	put(t, s, "c/x/d/1", "commit")
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("NOT TESTED: a full disk needs a small tmpfs, mount: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	s := open(t, dir, "one")
	put(t, s, "c/x/init", "A")
	for i := 0; ; i++ {
		_, err := s.PutOnce(t.Context(), fmt.Sprintf("blob/%d", i), bytes.Repeat([]byte{'x'}, 10000))
		if errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil || i > 10 {
			t.Fatalf("put %d: %v", i, err)
		}
	}
	if left := temporaries(t, dir); left != nil {
		t.Errorf("left behind: %q", left)
	}
	names, err := s.List(t.Context(), "blob")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if value, _, err := s.Get(t.Context(), "blob/"+name); len(value) != 10000 || err != nil {
			t.Errorf("blob/%s has %d bytes, %v", name, len(value), err)
		}
	}
	if err := s.Remove(t.Context(), "blob/"+names[0]); err != nil {
		t.Fatal(err)
	}
	put(t, s, "c/x/d/1", "commit")
}

// TestFullDiskLeavesRoomForADecision: a rank that has promised must be able to
// record its abort.
func TestFullDiskLeavesRoomForADecision(t *testing.T) {
	parent := t.TempDir()
	if err := syscall.Mount("tmpfs", parent, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("NOT TESTED: a full disk needs a small tmpfs, mount: %v", err)
	}
	defer syscall.Unmount(parent, syscall.MNT_DETACH)
	s, err := Private(parent, "comm", "one")
	if err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(filepath.Join(parent, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	if got := put(t, s, "c/x/d/1", "abort"); got != "abort" {
		t.Errorf("stands %q", got)
	}
	if _, err := s.PutOnce(t.Context(), "c/x/d/2", []byte("abort")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("there is room twice: %v", err)
	}
	filler.Truncate(0)
	put(t, s, "c/x/d/2", "abort")
	filler.Seek(0, 0)
	for err = nil; err == nil; {
		_, err = filler.Write(make([]byte, 512))
	}
	put(t, s, "c/x/d/3", "abort")
	for i := 1; i <= 3; i++ {
		if value, _, err := s.Get(t.Context(), fmt.Sprintf("c/x/d/%d", i)); string(value) != "abort" {
			t.Errorf("d/%d: %q, %v", i, value, err)
		}
	}
	s.Close()
	if exists(s.Dir()) {
		t.Error("the directory outlives its last process")
	}
}
