package dirstore

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A stranger may take any name that he can guess, before a job or while it starts. What
// is his is neither used nor touched, and all processes still meet.
func TestForeignDirectoriesArePassedOver(t *testing.T) {
	for what, make := range map[string]func(path string) error{
		"open to all":    func(path string) error { os.Mkdir(path, 0o700); return os.Chmod(path, 0o777) },
		"a link":         func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a file":         func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"another user's": func(path string) error { os.Mkdir(path, 0o700); return os.Chown(path, 12345, 12345) },
	} {
		t.Run(what, func(t *testing.T) {
			parent := t.TempDir()
			name := filepath.Join(parent, fmt.Sprintf("%s%d-comm", privatePrefix, os.Getuid()))
			foreign := []string{name, name + ".00000000", name + ".zzzzzzzz"}
			for _, path := range foreign {
				if err := make(path); err != nil {
					t.Skipf("NOT TESTED: who is not root cannot make what is another user's: %v", err)
				}
			}
			child := start(t, "hold", parent, "child")
			s, err := Private(parent, "comm", "x")
			if err != nil {
				t.Fatal(err)
			}
			if value, found, err := s.Get(t.Context(), "c/x/init"); string(value) != "A" || !found || err != nil {
				t.Errorf("the processes do not share a directory: %q, %v, %v", value, found, err)
			}
			child.Say("end")
			child.Rest(t)
			s.Close()
			left, _ := os.ReadDir(parent)
			if len(left) != len(foreign) {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// However many processes start at the same time, and whatever a stranger does with the
// names meanwhile, all of them come to one directory.
func TestAllChooseTheSame(t *testing.T) {
	const rounds, ranks = 200, 12
	for range rounds {
		parent := t.TempDir()
		over := make(chan struct{})
		var stranger, all sync.WaitGroup
		stranger.Go(func() {
			path := filepath.Join(parent, fmt.Sprintf("%s%d-comm", privatePrefix, os.Getuid()))
			for {
				select {
				case <-over:
					return
				default:
					os.WriteFile(path, nil, 0o600)
					os.Remove(path)
				}
			}
		})
		stores := make([]*Store, ranks)
		begin := make(chan struct{})
		for r := range ranks {
			all.Go(func() {
				<-begin
				s, err := Private(parent, "comm", fmt.Sprint(r))
				if err != nil {
					t.Error(err)
					return
				}
				stores[r] = s
			})
		}
		close(begin)
		all.Wait()
		close(over)
		stranger.Wait()
		if t.Failed() {
			return
		}
		for _, s := range stores {
			if s.Dir() != stores[0].Dir() {
				t.Fatalf("one uses %s, one %s", stores[0].Dir(), s.Dir())
			}
		}
		for _, s := range stores {
			s.Close()
		}
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Fatalf("left: %v", left)
		}
	}
}

// What a process leaves that crashes before it has made the lock file holds nobody up
// for long; nor does a directory that was emptied under its users.
func TestChooseBesideLeftovers(t *testing.T) {
	for _, record := range []string{"", "p"} {
		parent := t.TempDir()
		left := filepath.Join(parent, fmt.Sprintf("%s%d-comm.00000000", privatePrefix, os.Getuid()))
		os.MkdirAll(filepath.Join(left, record), 0o700)
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s, err := Private(parent, "comm", "x")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if s.Dir() == left || time.Since(began) > 2*madeFor {
				t.Errorf("it came to %s after %v", s.Dir(), time.Since(began))
			}
		})
	}
}

// A lock that another process keeps does not stop a job's start for good.
func TestLockIsNotAwaitedForEver(t *testing.T) {
	parent := t.TempDir()
	s, err := Private(parent, "comm", "x")
	if err != nil {
		t.Fatal(err)
	}
	flock(s.lock, syscall.LOCK_EX)
	synctest.Test(t, func(t *testing.T) {
		if _, err := Private(parent, "comm", "y"); err == nil {
			t.Error("it has a lock that another process holds alone")
		} else {
			t.Log(err)
		}
	})
	flock(s.lock, syscall.LOCK_SH)
	again, err := Private(parent, "comm", "y")
	if err != nil || again.Dir() != s.Dir() {
		t.Fatal(err)
	}
	again.Close()
	s.Close()
}
