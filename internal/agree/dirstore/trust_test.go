package dirstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
)

// planted is a store with a proposal, a small record and a large one in it, which
// another process of the same user has put there.
func planted(t *testing.T) (s *Store, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "meet")
	s = open(t, dir, "one")
	storetest.Put(t, s, "p/x.1", "proposal")
	if err := os.Symlink("commit", filepath.Join(dir, "p", "link")); err != nil {
		t.Fatal(err)
	}
	return open(t, dir, "two"), dir
}

func anothers(path string) error { return os.Lchown(path, 12345, 12345) }
func openToAll(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()|0o002)
}

// A directory that somebody else can write into is found out, at its top and below.
func TestCheckOfAForeignDirectory(t *testing.T) {
	for what, make := range map[string]func(string) error{"another user's": anothers, "open to all": openToAll} {
		for _, below := range []string{"", "p"} {
			s, dir := planted(t)
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, below)
			if err := make(path); errors.Is(err, syscall.EPERM) {
				t.Logf("NOT TESTED: only root can give a directory away: %v", err)
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if err := s.Check(); !errors.Is(err, ErrForeign) ||
				!strings.HasPrefix(err.Error(), path+" is not this user's alone: ") {
				t.Errorf("%s: %v", what, err)
			}
			if names, err := s.List(t.Context(), "p"); below == "p" && !errors.Is(err, ErrForeign) {
				t.Errorf("what is %s is listed: %q, %v", what, names, err)
			}
			s.TrustAll()
			if err := s.Check(); err != nil {
				t.Errorf("all are trusted: %v", err)
			}
			if names, err := s.List(t.Context(), "p"); len(names) != 2 || err != nil {
				t.Errorf("all are trusted: %q, %v", names, err)
			}
		}
	}
}

// A record that somebody else has planted or can change is not obeyed, neither where it
// is read nor where it stands in the way of an own one.
func TestForeignRecordsAreRefused(t *testing.T) {
	for _, c := range []struct {
		what, key string
		make      func(string) error
	}{
		{"another user's", "p/x.1", anothers},
		{"another user's link", "p/link", anothers},
		{"open to all", "p/x.1", openToAll},
	} {
		s, dir := planted(t)
		if err := c.make(filepath.Join(dir, c.key)); errors.Is(err, syscall.EPERM) {
			t.Logf("NOT TESTED: only root can give a file away: %v", err)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		said := 0
		s.OnRefusal(func(error) { said++ })
		value, found, err := s.Get(t.Context(), c.key)
		if found || !errors.Is(err, ErrForeign) || said != 1 {
			t.Errorf("%s: %q, %v, said %d times: %v", c.what, value, found, said, err)
		}
		if stands, err := s.PutOnce(t.Context(), c.key, []byte("mine")); !errors.Is(err, ErrForeign) || said != 2 {
			t.Errorf("%s: %q stands, said %d times: %v", c.what, stands, said, err)
		}
		s.TrustAll()
		if _, found, err := s.Get(t.Context(), c.key); !found || err != nil {
			t.Errorf("all are trusted: %v, %v", found, err)
		}
	}
}

// What is no record does not hold a rank up, and is none.
func TestFIFOIsNoRecord(t *testing.T) {
	s, dir := planted(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "p", "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Get(t.Context(), "p/fifo"); found || err == nil {
		t.Errorf("%v, %v", found, err)
	}
}

// An error tells where a record could not be put, not what it holds: it goes to a log.
func TestErrorsDoNotRepeatTheRecord(t *testing.T) {
	dir := t.TempDir()
	if err := symlink([]byte("secret"), filepath.Join(dir, "none", "x")); err == nil ||
		strings.Contains(err.Error(), "secret") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// Who looks, root say, sees the records that count for the user whose directory it is.
func TestJudgeAsOwner(t *testing.T) {
	_, dir := planted(t)
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, anothers(path))
	})
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("only root can give a directory away: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	look := func() *Store {
		s, err := Look(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		s.JudgeAsOwner()
		return s
	}
	if value, found, err := look().Get(t.Context(), "p/x.1"); string(value) != "proposal" || !found || err != nil {
		t.Errorf("the owner's record: %q, %v, %v", value, found, err)
	}
	record := filepath.Join(dir, "p", "x.1")
	if err := os.Chown(record, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	if _, _, err := look().Get(t.Context(), "p/x.1"); !errors.Is(err, ErrForeign) {
		t.Errorf("a third user's record: %v", err)
	}
	if err := openToAll(dir); err != nil {
		t.Fatal(err)
	}
	if value, _, err := look().Get(t.Context(), "p/x.1"); string(value) != "proposal" || err != nil {
		t.Errorf("where only such processes are as trust everybody: %q, %v", value, err)
	}
}
