package watch

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
)

// Config is what a Watcher needs. All durations must be positive.
type Config struct {
	// Poll is the time between looks at each file, whatever the kernel tells.
	Poll time.Duration
	// Debounce is how long a file must be at rest before a change is reported, so
	// that a save in several writes counts once. Events have the files looked at as often.
	Debounce time.Duration
	// Max is the longest that a change waits for rest: a file that is written all
	// the time is reported every Max.
	Max time.Duration
	// Log, if not nil, is told once if only polling is left, why, and what helps.
	Log func(text string)
}

// closeLimit is how long Close waits for a file system that does not answer.
const closeLimit = time.Second

// Watcher watches files until Close.
type Watcher struct {
	cfg     Config
	open    func() (*kernel, error)
	running sync.WaitGroup // a goroutine for each file, and one for the kernel's events

	mu     sync.Mutex // held for moments only
	closed bool
	files  map[*file]bool
	kernel *kernel // nil while nothing is watched, or if there are no events
	said   bool    // that only polling is left
}

// file is a watched path. A goroutine of its own looks at it: one on a server that is away
// must not hide the others.
type file struct {
	path    string
	changed func()
	woken   chan struct{} // holds one event
	stop    chan struct{}
}

// New returns a Watcher that watches nothing yet.
func New(cfg Config) *Watcher { return newWatcher(cfg, openKernel) }

func newWatcher(cfg Config, open func() (*kernel, error)) *Watcher {
	return &Watcher{cfg: cfg, open: open, files: map[*file]bool{}}
}

// Add watches path, which need not exist, until stop. changed is called whenever
// the file may have changed, and once soon after Add, for it may have changed
// since it was read. It is called from a goroutine of the Watcher's and must not panic. One
// call may outlast stop.
func (w *Watcher) Add(path string, changed func()) (stop func()) {
	// No filepath.Abs: "a/.." is another directory if a is a symbolic link.
	if !filepath.IsAbs(path) {
		if here, err := filepath.Abs("."); err == nil {
			path = here + string(filepath.Separator) + path
		}
	}
	var noEvents error
	defer func() {
		if noEvents != nil {
			w.onlyPolling(noEvents)
		}
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return func() {}
	}
	if len(w.files) == 0 {
		if w.kernel, noEvents = w.open(); noEvents == nil {
			k := w.kernel
			w.running.Go(func() { w.wake(k) })
		}
	}
	f := &file{path: path, changed: changed, woken: make(chan struct{}, 1), stop: make(chan struct{})}
	w.files[f] = true
	w.running.Go(func() { w.follow(f) })
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.remove(f)
	}
}

// remove ends what Add has begun; w.mu is held.
func (w *Watcher) remove(f *file) {
	if !w.files[f] {
		return
	}
	delete(w.files, f)
	close(f.stop)
	if k := w.kernel; k != nil && len(w.files) == 0 {
		w.kernel = nil
		close(k.ended)
		w.running.Go(func() { _ = k.close() })
	}
}

// follow looks at a file until it is removed, and reports what changes.
func (w *Watcher) follow(f *file) {
	var last state
	var since time.Time // when last was first seen
	unsure := false     // a change soon after the last one may leave the same state
	for {
		w.listen(f.path)
		now := look(f.path)
		switch {
		case now != last:
			for began := time.Now(); time.Since(began) < w.cfg.Max; {
				if !f.pause(w.cfg.Debounce) {
					return
				}
				before := now
				if now = look(f.path); now == before {
					break
				}
			}
			last, since, unsure = now, time.Now(), true
			f.changed() // after the look: the next look finds what changes during this call
		case unsure && time.Since(since) >= coarse:
			unsure = false
			f.changed()
		}
		wait := w.cfg.Poll
		if unsure {
			wait = min(wait, coarse)
		}
		poll := time.NewTimer(wait)
		select {
		case <-f.stop:
			poll.Stop()
			return
		case <-poll.C:
		case <-f.woken:
		}
		poll.Stop()
	}
}

// pause returns false if the file is removed meanwhile.
func (f *file) pause(d time.Duration) bool {
	select {
	case <-f.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// state is what a look at a file finds.
type state struct {
	id  id
	err string // why there is nothing to be seen
}

func look(path string) state {
	info, err := os.Stat(path)
	if err != nil {
		return state{err: safefile.Reason(err).Error()}
	}
	return state{id: identify(info)}
}

// Close ends all watching. Nothing of the Watcher runs afterwards, except what
// hangs in a file system that has not answered for a second.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	for f := range w.files {
		w.remove(f)
	}
	w.mu.Unlock()
	done := make(chan struct{})
	go func() {
		w.running.Wait()
		close(done)
	}()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	}
}
