package dirstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
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

// envShared may name a directory of a file server, on which the tests of a shared
// directory are then done; or several, which are mounts of the same one, as two
// machines have them.
const envShared = "DIRSTORE_TEST_SHARED"

// sharedDir is a fresh directory of the kind that machines share, as each of them
// sees it.
func sharedDir(t *testing.T) (views []string) {
	t.Helper()
	mounts := filepath.SplitList(os.Getenv(envShared))
	if len(mounts) == 0 {
		return []string{t.TempDir()}
	}
	dir, err := os.MkdirTemp(mounts[0], "dirstore-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, mount := range mounts {
		views = append(views, filepath.Join(mount, filepath.Base(dir)))
	}
	return views
}

func TestContract(t *testing.T) {
	views := map[*testing.T][]string{}
	opened := 0
	storetest.Contract(t, func(t *testing.T, name string) agree.Store {
		if views[t] == nil {
			views[t] = sharedDir(t)
			t.Cleanup(func() {
				if left := temporaries(t, views[t][0]); left != nil {
					t.Errorf("left behind: %q", left)
				}
			})
		}
		opened++
		return open(t, filepath.Join(views[t][opened%len(views[t])], "store"), name)
	})
}

func TestPermissionsArePrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "store")
	storetest.Put(t, open(t, dir, "one"), "c/x/init", "A")
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		return nil
	})
}

// A decision is as old as its record, not as what was moved there.
func TestMoveMakesNew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, "one")
	storetest.Put(t, s, "c/x/p", "A")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "c/x/p"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := s.Move(t.Context(), "c/x/p", "c/x/d"); err != nil {
		t.Fatal(err)
	}
	made, err := s.Made(t.Context(), "c/x")
	if at := made["c/x/d"]; err != nil || time.Since(at) > time.Minute {
		t.Errorf("the decision was made %v ago (%v)", time.Since(at), err)
	}
}

func TestMissingRootIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, "one")
	storetest.Put(t, s, "c/x/d/1", "commit")
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

func TestHangingOperationsAreLeftBehind(t *testing.T) {
	s := open(t, t.TempDir(), "one")
	release := make(chan struct{})
	hang := func(ctx context.Context, cancel func()) {
		t.Helper()
		_, err := do(ctx, s, "c", func(string) (int, error) { cancel(); <-release; return 0, nil })
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	for range maxBusy {
		hang(context.WithCancel(t.Context()))
	}
	// There is no room for more: the next one does not begin.
	hang(context.WithTimeout(t.Context(), time.Millisecond))
	if n := len(s.busy); n != maxBusy {
		t.Errorf("%d operations hang", n)
	}
	close(release)
	storetest.Put(t, s, "c/x/d/1", "commit")
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("NOT TESTED: a full disk needs a small tmpfs, mount: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	s := open(t, dir, "one")
	storetest.Put(t, s, "c/x/init", "A")
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
	storetest.Put(t, s, "c/x/d/1", "commit")
}

// TestFullDiskLeavesRoomForDecisions: ranks at the barrier must be able to decide, in each of
// their communicators and however often, and small records still find room.
func TestFullDiskLeavesRoomForDecisions(t *testing.T) {
	parent := t.TempDir()
	if err := syscall.Mount("tmpfs", parent, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("NOT TESTED: a full disk needs a small tmpfs, mount: %v", err)
	}
	defer syscall.Unmount(parent, syscall.MNT_DETACH)
	s, err := Private(parent, "comm", "one")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		storetest.Put(t, s, fmt.Sprintf("c/%d/t/1/0", i), "")
	}
	filler, err := os.Create(filepath.Join(parent, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	for i := range 20 {
		if err := s.Move(t.Context(), fmt.Sprintf("c/%d/t/1/0", i), fmt.Sprintf("c/%d/d/1.stall.0.1", i)); err != nil {
			t.Error(err)
		}
	}
	for i := range 20 {
		key := fmt.Sprintf("c/x/d/%d", i)
		if got := storetest.Put(t, s, key, `{"abort":"stall","by":7}`); got != `{"abort":"stall","by":7}` {
			t.Errorf("%s: stands %q", key, got)
		}
		if got := storetest.Put(t, s, key, `{"commit":true,"by":1}`); got != `{"abort":"stall","by":7}` {
			t.Errorf("%s: put again, stands %q", key, got)
		}
	}
	storetest.Put(t, s, "c/x/a/1/0-1", "")
	if _, err := s.PutOnce(t.Context(), "c/x/d/20", bytes.Repeat([]byte{'x'}, 2000)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("there is room for a large record: %v", err)
	}
	filler.Truncate(0)
	if got := storetest.Put(t, s, "c/x/d/0", `{"commit":true,"by":1}`); got != `{"abort":"stall","by":7}` {
		t.Errorf("with room again, stands %q", got)
	}
	storetest.Put(t, s, "c/x/d/20", "abort")
	if names, err := s.List(t.Context(), "c/x/d"); len(names) != 21 || err != nil {
		t.Errorf("listed: %q, %v", names, err)
	}
	for i := range 20 {
		if value, found, err := s.Get(t.Context(), fmt.Sprintf("c/x/d/%d", i)); !found ||
			string(value) != `{"abort":"stall","by":7}` {
			t.Errorf("d/%d: %q, %v", i, value, err)
		}
	}
	s.Close()
	if exists(s.Dir()) {
		t.Error("the directory outlives its last process")
	}
}

// A private directory is in memory: an operation runs in its caller, whatever other goroutines do,
// and a small record takes no block.
func TestPrivateOperationsWaitForNobody(t *testing.T) {
	s, err := Private(t.TempDir(), "comm", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range maxBusy {
		s.busy <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.PutOnce(ctx, "c/x/slot/1", []byte("rank")); err != nil {
		t.Fatal(err)
	}
	if value, found, err := s.Get(ctx, "c/x/slot/1"); string(value) != "rank" || !found || err != nil {
		t.Errorf("%q, %v, %v", value, found, err)
	}
	if info, err := os.Lstat(filepath.Join(s.Dir(), "c/x/slot/1")); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
