package watch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// usual is what a process uses, on a clock that takes no time.
var usual = Config{Poll: time.Second, Debounce: 50 * time.Millisecond, Max: 500 * time.Millisecond}

// fake is a kernel that says what a test wants.
type fake struct {
	out  chan event
	fail error // of add
	mu   sync.Mutex
	dirs map[string]int // how often each was asked for; what was taken back is 0
	// race, if not nil, is what happens just before the first add.
	race func()
}

func (k *fake) add(dir string) error {
	if k.fail != nil {
		return k.fail
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if race := k.race; race != nil {
		k.race = nil
		race()
	}
	k.dirs[dir]++
	return nil
}
func (k *fake) remove(dir string)    { k.mu.Lock(); delete(k.dirs, dir); k.mu.Unlock() }
func (k *fake) asked(dir string) int { k.mu.Lock(); defer k.mu.Unlock(); return k.dirs[dir] }
func (k *fake) events() <-chan event { return k.out }
func (k *fake) close()               { close(k.out) }

// simulated runs a Watcher with a fake kernel on a file in a directory of its own.
// reports is when the file was reported, since the beginning; the first report,
// which follows Add, is left out.
func simulated(t *testing.T, cfg Config, k *fake, run func(path string, told func() []time.Duration)) {
	path := filepath.Join(t.TempDir(), "policy.csv")
	write(t, path, "one")
	synctest.Test(t, func(t *testing.T) {
		k.out, k.dirs = make(chan event), map[string]int{}
		w := newWatcher(cfg, func() (notifier, error) { return k, nil })
		defer w.Close()
		var mu sync.Mutex
		var at []time.Duration
		began := time.Now()
		w.Add(path, func() {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(began))
		})
		time.Sleep(10 * time.Second) // beyond the first report and its repetition
		mu.Lock()
		at, began = nil, time.Now()
		mu.Unlock()
		run(path, func() []time.Duration {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return at
		})
	})
}

func TestSeveralWritesCountOnce(t *testing.T) {
	k := &fake{}
	simulated(t, usual, k, func(path string, told func() []time.Duration) {
		for range 5 {
			k.out <- event{path: path}
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(400 * time.Millisecond)
		if at := told(); len(at) != 1 || at[0] != 80*time.Millisecond+usual.Debounce {
			t.Errorf("reported at %v", at)
		}
	})
}

func TestWrittenAllTheTime(t *testing.T) {
	k := &fake{}
	cfg := usual
	cfg.Poll = time.Hour
	simulated(t, cfg, k, func(path string, told func() []time.Duration) {
		for range 500 {
			k.out <- event{path: path}
			time.Sleep(10 * time.Millisecond)
		}
		if at := told(); len(at) < 9 || len(at) > 10 {
			t.Errorf("in 5 s of writing reported at %v", at)
		}
	})
}

func TestOtherFilesDoNotMatter(t *testing.T) {
	k := &fake{}
	simulated(t, usual, k, func(path string, told func() []time.Duration) {
		k.out <- event{path: path + "~"}
		k.out <- event{path: filepath.Join(filepath.Dir(path), "other"), gone: true}
		time.Sleep(5 * time.Second)
		if at := told(); len(at) > 0 {
			t.Errorf("reported at %v", at)
		}
	})
}

func TestLostEvents(t *testing.T) {
	k := &fake{}
	simulated(t, usual, k, func(path string, told func() []time.Duration) {
		k.out <- event{lost: true}
		time.Sleep(time.Second / 2)
		if at := told(); len(at) != 1 {
			t.Errorf("reported at %v", at)
		}
	})
}

// TestPolledChange: a change without an event is reported, and once more when the
// clock of the file system has ticked on, but not for ever.
func TestPolledChange(t *testing.T) {
	k := &fake{}
	simulated(t, usual, k, func(path string, told func() []time.Duration) {
		replace(t, path, "another machine was here")
		time.Sleep(time.Minute)
		if at := told(); len(at) != 2 || at[0] > usual.Poll+usual.Debounce || at[1]-at[0] < coarse {
			t.Errorf("reported at %v", at)
		}
	})
}

// TestDirectoryOfTheSameNumber: a directory that was made again may have the
// number of the one removed, and is another one all the same.
func TestDirectoryOfTheSameNumber(t *testing.T) {
	k := &fake{}
	cfg := usual
	cfg.Poll = time.Hour
	simulated(t, cfg, k, func(path string, told func() []time.Duration) {
		dir := filepath.Dir(path)
		k.remove(dir) // what the kernel does by itself
		k.out <- event{path: dir, gone: true}
		time.Sleep(time.Second)
		if at := told(); len(at) != 1 || k.asked(dir) != 1 {
			t.Errorf("reported at %v, the directory was asked for %d times", at, k.asked(dir))
		}
	})
}

// TestWayChangesWhileAsking: a link that points elsewhere by the time the kernel
// tells of it.
func TestWayChangesWhileAsking(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		write(t, filepath.Join(mkdir(t, filepath.Join(dir, version)), "policy.csv"), version)
	}
	link(t, "1", filepath.Join(dir, "current"))
	synctest.Test(t, func(t *testing.T) {
		k := &fake{out: make(chan event), dirs: map[string]int{}, race: func() { link(t, "2", filepath.Join(dir, "current")) }}
		cfg := usual
		cfg.Poll = time.Hour
		w := newWatcher(cfg, func() (notifier, error) { return k, nil })
		defer w.Close()
		w.Add(filepath.Join(dir, "current", "policy.csv"), func() {})
		time.Sleep(time.Minute)
		if one, two := k.asked(filepath.Join(dir, "1")), k.asked(filepath.Join(dir, "2")); one != 0 || two != 1 {
			t.Errorf("the directories were asked for %d and %d times", one, two)
		}
	})
}

func TestNoRoomForWatches(t *testing.T) {
	for _, c := range []struct {
		err  error
		help string
	}{
		{syscall.ENOSPC, "fs.inotify.max_user_watches"},
		{syscall.EMFILE, "fs.inotify.max_user_instances"},
		{errors.New("something"), "something"},
	} {
		var log []string
		cfg := usual
		cfg.Log = func(text string) { log = append(log, text) }
		simulated(t, cfg, &fake{fail: c.err}, func(path string, told func() []time.Duration) {
			for _, text := range []string{"the second", "the third version"} {
				write(t, path, text)
				time.Sleep(10 * time.Second)
			}
			if at := told(); len(at) != 4 {
				t.Errorf("%v: reported at %v", c.err, at)
			}
		})
		if len(log) != 1 || !strings.Contains(log[0], c.help) || !strings.Contains(log[0], "every 1s") {
			t.Errorf("%v: said %q", c.err, log)
		}
	}
}

// TestCallbackHangs: neither other files nor Close wait for a reader whose
// file server is away.
func TestCallbackHangs(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	write(t, one, "1")
	write(t, two, "1")
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher(usual, func() (notifier, error) { return nil, os.ErrInvalid })
		release := make(chan struct{})
		w.Add(one, func() { <-release })
		var told atomic.Int32
		w.Add(two, func() { told.Add(1) })
		time.Sleep(10 * time.Second)
		before := told.Load()
		write(t, two, "the other one")
		time.Sleep(10 * time.Second)
		if told.Load() == before {
			t.Error("a file is not reported while another's callback hangs")
		}
		began := time.Now()
		w.Close()
		if took := time.Since(began); took > closeLimit {
			t.Errorf("Close took %v", took)
		}
		close(release)
	})
}
