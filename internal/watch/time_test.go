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

	"github.com/fsnotify/fsnotify"
)

// usual is what a process uses, on a clock that takes no time.
var usual = Config{Poll: time.Second, Debounce: 50 * time.Millisecond, Max: 500 * time.Millisecond}

// fake is a kernel that says what a test wants.
type fake struct {
	events chan fsnotify.Event
	errors chan error
	fail   error // of add
}

func (k *fake) open() (*kernel, error) {
	k.events, k.errors = make(chan fsnotify.Event, 1000), make(chan error)
	return &kernel{
		add:    func(string) error { return k.fail },
		events: k.events,
		errors: k.errors,
		close:  func() error { close(k.events); return nil },
		ended:  make(chan struct{}),
	}, nil
}

// simulated runs a Watcher with a fake kernel on a file in a directory of its own.
// told is when the file was reported, since the beginning; the first report,
// which follows Add, is left out.
func simulated(t *testing.T, cfg Config, k *fake, run func(path string, told func() []time.Duration)) {
	path := filepath.Join(t.TempDir(), "policy.csv")
	write(t, path, "one")
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher(cfg, k.open)
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

// grow makes the file longer, so that it shows even within one tick of the file system's clock.
func (k *fake) grow(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	check(t, err)
	write(t, path, string(text)+".")
	k.events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
}

func TestSeveralWritesCountOnce(t *testing.T) {
	k := &fake{}
	simulated(t, usual, k, func(path string, told func() []time.Duration) {
		for range 5 {
			k.grow(t, path)
			time.Sleep(20 * time.Millisecond) // simulated
		}
		time.Sleep(400 * time.Millisecond) // simulated
		if at := told(); len(at) != 1 || at[0] > 80*time.Millisecond+2*usual.Debounce {
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
			k.grow(t, path)
			time.Sleep(10 * time.Millisecond) // simulated
		}
		if at := told(); len(at) < 9 || len(at) > 10 {
			t.Errorf("in 5 s of writing reported at %v", at)
		}
	})
}

func TestOtherFilesDoNotMatter(t *testing.T) {
	k := &fake{}
	simulated(t, usual, k, func(path string, told func() []time.Duration) {
		k.events <- fsnotify.Event{Name: path + "~", Op: fsnotify.Write}
		k.events <- fsnotify.Event{Name: filepath.Join(filepath.Dir(path), "other"), Op: fsnotify.Remove}
		time.Sleep(5 * time.Second) // simulated
		if at := told(); len(at) > 0 {
			t.Errorf("reported at %v", at)
		}
	})
}

// TestBusyDirectory: a log that another process writes next to the file costs a look every
// Debounce, however many lines it has, and hides no change.
func TestBusyDirectory(t *testing.T) {
	k := &fake{}
	cfg := usual
	cfg.Poll = time.Hour
	simulated(t, cfg, k, func(path string, told func() []time.Duration) {
		write(t, path, "changed without an event of its own")
		for range cap(k.events) {
			k.events <- fsnotify.Event{Name: filepath.Join(filepath.Dir(path), "log"), Op: fsnotify.Write}
		}
		time.Sleep(time.Second) // simulated
		if taken := cap(k.events) - len(k.events); taken > 22 {
			t.Errorf("%d events are taken within a second", taken)
		}
		if at := told(); len(at) != 1 || at[0] > 2*usual.Debounce {
			t.Errorf("reported at %v", at)
		}
	})
}

func TestLostEvents(t *testing.T) {
	k := &fake{}
	cfg := usual
	cfg.Poll = time.Hour
	simulated(t, cfg, k, func(path string, told func() []time.Duration) {
		write(t, path, "the kernel has lost this")
		k.errors <- fsnotify.ErrEventOverflow
		time.Sleep(time.Second / 2) // simulated
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
		time.Sleep(time.Minute) // simulated
		if at := told(); len(at) != 2 || at[0] > usual.Poll+usual.Debounce || at[1]-at[0] < coarse {
			t.Errorf("reported at %v", at)
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
				time.Sleep(10 * time.Second) // simulated
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
		w := newWatcher(usual, func() (*kernel, error) { return nil, os.ErrInvalid })
		release := make(chan struct{})
		w.Add(one, func() { <-release })
		var told atomic.Int32
		w.Add(two, func() { told.Add(1) })
		time.Sleep(10 * time.Second) // simulated
		before := told.Load()
		write(t, two, "the other one")
		time.Sleep(10 * time.Second) // simulated
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
