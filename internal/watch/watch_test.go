package watch

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// deadline is how long a test waits for what should happen at once.
const deadline = 5 * time.Minute

const missing = "(missing)"

// reader reads a file whenever it may have changed.
type reader struct {
	path string
	seen chan string
}

func (r *reader) changed() {
	text, err := os.ReadFile(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		text = []byte(missing)
	case err != nil:
		text = []byte(err.Error())
	}
	select {
	case r.seen <- string(text):
	case <-time.After(deadline):
	}
}

// await waits until the file has been read with this content.
func (r *reader) await(t *testing.T, want string) {
	t.Helper()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	got := "nothing"
	for {
		select {
		case got = <-r.seen:
			if got == want {
				return
			}
		case <-limit.C:
			t.Fatalf("%s was last reported with %q, want %q", r.path, got, want)
		}
	}
}

// quick never polls within a test, often does nearly all the time.
var (
	quick = Config{Poll: time.Hour, Debounce: time.Millisecond, Max: 10 * time.Millisecond}
	often = Config{Poll: 10 * time.Millisecond, Debounce: time.Millisecond, Max: 10 * time.Millisecond}
)

// polled are the edits that the kernel need not tell of.
var polled = map[string]bool{"a link elsewhere on the way": true, "the directory exchanged": true}

func follow(t *testing.T, w *Watcher, path string) *reader {
	r := &reader{path: path, seen: make(chan string, 1000)}
	t.Cleanup(w.Add(path, r.changed))
	return r
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o600))
}

// replace does what most editors and careful scripts do.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	check(t, os.Rename(path+".new", path))
}

func link(t *testing.T, target, path string) {
	t.Helper()
	check(t, os.Symlink(target, path+".new"))
	check(t, os.Rename(path+".new", path))
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	check(t, os.MkdirAll(path, 0o700))
	return path
}

// edits are the ways in which a file changes. Each begins with the content "one"
// at the path it returns, and edit gives it "two" and then "three".
var edits = map[string]func(t *testing.T, dir string) (path string, edit func(t *testing.T, text string)){
	"written in place": func(t *testing.T, dir string) (string, func(*testing.T, string)) {
		path := filepath.Join(dir, "policy.csv")
		write(t, path, "one")
		return path, func(t *testing.T, text string) { write(t, path, text) }
	},
	"replaced by a rename": func(t *testing.T, dir string) (string, func(*testing.T, string)) {
		path := filepath.Join(dir, "policy.csv")
		write(t, path, "one")
		return path, func(t *testing.T, text string) { replace(t, path, text) }
	},
	"the ConfigMap of Kubernetes": func(t *testing.T, dir string) (string, func(*testing.T, string)) {
		// policy.csv -> ..data/policy.csv, ..data -> ..<time>, which is removed later.
		old := ""
		swap := func(t *testing.T, text string) {
			fresh := "..2026_" + text
			write(t, filepath.Join(mkdir(t, filepath.Join(dir, fresh)), "policy.csv"), text)
			link(t, fresh, filepath.Join(dir, "..data"))
			if old != "" {
				check(t, os.RemoveAll(filepath.Join(dir, old)))
			}
			old = fresh
		}
		swap(t, "one")
		path := filepath.Join(dir, "policy.csv")
		check(t, os.Symlink("..data/policy.csv", path))
		return path, swap
	},
	"a link elsewhere on the way": func(t *testing.T, dir string) (string, func(*testing.T, string)) {
		swap := func(t *testing.T, text string) {
			write(t, filepath.Join(mkdir(t, filepath.Join(dir, "versions", text)), "policy.csv"), text)
			link(t, filepath.Join(dir, "versions", text), filepath.Join(dir, "current"))
		}
		swap(t, "one")
		path := filepath.Join(mkdir(t, filepath.Join(dir, "home")), "policy.csv")
		check(t, os.Symlink("../current/./policy.csv", path))
		return path, swap
	},
	"the end of a link": func(t *testing.T, dir string) (string, func(*testing.T, string)) {
		target := filepath.Join(mkdir(t, filepath.Join(dir, "elsewhere")), "p")
		write(t, target, "one")
		path := filepath.Join(mkdir(t, filepath.Join(dir, "here")), "policy.csv")
		check(t, os.Symlink(target, path))
		return path, func(t *testing.T, text string) { replace(t, target, text) }
	},
	"the directory exchanged": func(t *testing.T, dir string) (string, func(*testing.T, string)) {
		parent := filepath.Join(dir, "etc")
		path := filepath.Join(mkdir(t, parent), "policy.csv")
		write(t, path, "one")
		return path, func(t *testing.T, text string) {
			write(t, filepath.Join(mkdir(t, filepath.Join(dir, "next")), "policy.csv"), text)
			check(t, os.Rename(parent, filepath.Join(dir, "before-"+text)))
			check(t, os.Rename(filepath.Join(dir, "next"), parent))
		}
	},
	"a directory given as a link": func(t *testing.T, dir string) (string, func(*testing.T, string)) {
		write(t, filepath.Join(mkdir(t, filepath.Join(dir, "real")), "policy.csv"), "one")
		check(t, os.Symlink("real", filepath.Join(dir, "alias")))
		path := filepath.Join(dir, "alias", "policy.csv")
		return path, func(t *testing.T, text string) { replace(t, path, text) }
	},
}

func TestEdits(t *testing.T) {
	for name, prepare := range edits {
		t.Run(name, func(t *testing.T) {
			path, edit := prepare(t, t.TempDir())
			cfg := quick
			if polled[name] {
				cfg = often
			}
			w := New(cfg)
			defer w.Close()
			r := follow(t, w, path)
			r.await(t, "one")
			edit(t, "two")
			r.await(t, "two")
			edit(t, "three")
			r.await(t, "three")
		})
	}
}

// TestEditsWithoutEvents is what NFS and a kernel without room for watches give.
func TestEditsWithoutEvents(t *testing.T) {
	for name, prepare := range edits {
		t.Run(name, func(t *testing.T) {
			path, edit := prepare(t, t.TempDir())
			synctest.Test(t, func(t *testing.T) {
				w := newWatcher(usual, func() (*kernel, error) { return nil, errors.New("none") })
				defer w.Close()
				r := follow(t, w, path)
				for _, text := range []string{"one", "two", "three"} {
					if text != "one" {
						edit(t, text)
					}
					began := time.Now()
					r.await(t, text)
					// A change within the tick of the one before is seen when it is over.
					if took := time.Since(began); took > coarse+2*usual.Poll {
						t.Errorf("%q was reported after %v", text, took)
					}
				}
			})
		})
	}
}

func TestDeletedAndMadeAgain(t *testing.T) {
	dir := t.TempDir()
	parent := mkdir(t, filepath.Join(dir, "a", "b"))
	path := filepath.Join(parent, "policy.csv")
	write(t, path, "one")
	w := New(often)
	defer w.Close()
	r := follow(t, w, path)
	r.await(t, "one")
	check(t, os.Remove(path))
	r.await(t, missing)
	write(t, path, "two")
	r.await(t, "two")
	for _, text := range []string{"three", "four"} {
		check(t, os.RemoveAll(filepath.Join(dir, "a")))
		r.await(t, missing)
		mkdir(t, parent)
		write(t, path, text)
		r.await(t, text)
		replace(t, path, text+" more")
		r.await(t, text+" more")
	}
}

func TestBecomesReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.csv")
	write(t, path, "one")
	check(t, os.Chmod(path, 0))
	w := New(quick)
	defer w.Close()
	told := make(chan fs.FileMode, 1000)
	defer w.Add(path, func() {
		info, err := os.Stat(path)
		if err == nil {
			told <- info.Mode()
		}
	})()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	for _, mode := range []fs.FileMode{0, 0o600} {
		check(t, os.Chmod(path, mode))
		for got := fs.FileMode(0o777); got != mode; {
			select {
			case got = <-told:
			case <-limit.C:
				t.Fatalf("mode %v is not reported", mode)
			}
		}
	}
}

// TestOneOfManyLeaves: what communicators share stays for the others.
func TestOneOfManyLeaves(t *testing.T) {
	dir := t.TempDir()
	policy, model := filepath.Join(dir, "policy.csv"), filepath.Join(dir, "model.json")
	write(t, policy, "one")
	write(t, model, "one")
	w := New(quick)
	defer w.Close()
	first := &reader{path: policy, seen: make(chan string, 1000)}
	stop := w.Add(policy, first.changed)
	second, third := follow(t, w, policy), follow(t, w, model)
	first.await(t, "one")
	second.await(t, "one")
	third.await(t, "one")
	stop()
	stop() // twice does no harm
	replace(t, policy, "two")
	replace(t, model, "two")
	second.await(t, "two")
	third.await(t, "two")
}

func TestRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	mkdir(t, "real/sub")
	check(t, os.Symlink("real/sub", "alias"))
	write(t, "real/policy.csv", "one")
	w := New(quick)
	defer w.Close()
	// alias/.. is real, not the working directory.
	r := follow(t, w, "alias/../policy.csv")
	r.await(t, "one")
	replace(t, "real/policy.csv", "two")
	r.await(t, "two")
}

func TestNothingIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.csv")
	write(t, path, "one")
	w := New(quick)
	r := &reader{path: path, seen: make(chan string, 1000)}
	stop := w.Add(path, r.changed)
	r.await(t, "one")
	stop()
	// Whoever comes later starts it again.
	stop = w.Add(path, r.changed)
	replace(t, path, "two")
	r.await(t, "two")
	w.Close()
	stop()
	w.Add(path, func() { t.Error("reported after Close") })
	for limit := time.Now().Add(deadline); running() != ""; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("still runs:\n%s", running())
		}
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, fd := range fds {
			if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(to, "inotify") {
				t.Errorf("still open: %s", to)
			}
		}
	}
}

// running returns the stack of a goroutine of the Watcher's.
func running() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, goroutine := range bytes.Split(stacks, []byte("\n\n"))[1:] {
		if bytes.Contains(goroutine, []byte("/watch.")) || bytes.Contains(goroutine, []byte("fsnotify")) {
			return string(goroutine)
		}
	}
	return ""
}
