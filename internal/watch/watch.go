package watch

import (
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// Config is what a Watcher needs. All durations must be positive.
type Config struct {
	// Poll is the time between looks at each file, whatever the kernel tells.
	Poll time.Duration
	// Debounce is how long a file must be at rest before a change is reported, so
	// that a save in several writes counts once.
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
	cfg  Config
	open func() (notifier, error)

	running sync.WaitGroup // looks, reports and the reader of events

	// asking is held while the notifier is asked for events, which may hang in a
	// file system. It is taken before mu, and never by Add, stop and Close.
	asking sync.Mutex

	mu       sync.Mutex // held for moments only
	closed   bool
	files    map[string]*file
	poll     *time.Timer            // nil while nothing is watched
	notifier notifier               // nil while nothing is watched, or if there are no events
	dirs     map[string]fs.FileInfo // whose events we get; nil if it has gone
	said     bool                   // that only polling is left
}

// file is a watched path.
type file struct {
	path  string
	tell  map[*func()]bool
	state state // when it was last reported
	// unsure: so soon after the last change, another may have left the same state.
	unsure bool
	since  time.Time // when state was first seen
	// entries are the paths whose events concern this file, and their directories.
	entries map[string]bool

	busy  bool        // somebody looks at it
	again bool        // and has to report once more afterwards
	first time.Time   // of the events that wait for rest
	rest  *time.Timer // until they are reported; nil if there are none
}

// New returns a Watcher that watches nothing yet.
func New(cfg Config) *Watcher { return newWatcher(cfg, openNotifier) }

func newWatcher(cfg Config, open func() (notifier, error)) *Watcher {
	return &Watcher{cfg: cfg, open: open, files: map[string]*file{}, dirs: map[string]fs.FileInfo{}}
}

// Add watches path, which need not exist, until stop. changed is called whenever
// the file may have changed, and once soon after Add, for it may have changed
// since it was read. It is called from a goroutine of the Watcher's, by one at a
// time for each path, and must not panic. One call may outlast stop.
func (w *Watcher) Add(path string, changed func()) (stop func()) {
	// No filepath.Abs: "a/.." is another directory if a is a symbolic link.
	if !filepath.IsAbs(path) {
		if here, err := filepath.Abs("."); err == nil {
			path = here + string(filepath.Separator) + path
		}
	}
	var noEvents error
	defer func() { w.onlyPolling(noEvents) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return func() {}
	}
	f := w.files[path]
	if f == nil {
		f = &file{path: path, tell: map[*func()]bool{}}
		w.files[path] = f
	}
	f.tell[&changed] = true
	if w.poll == nil {
		noEvents = w.start()
	}
	w.touch(f)
	return func() { w.remove(f, &changed) }
}

func (w *Watcher) remove(f *file, changed *func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(f.tell, changed)
	if len(f.tell) > 0 || w.files[f.path] != f {
		return
	}
	delete(w.files, f.path)
	f.forget()
	if len(w.files) == 0 {
		w.end()
		return
	}
	w.running.Go(func() { w.settle(nil) })
}

// forget drops the events that wait for rest.
func (f *file) forget() {
	if f.rest != nil {
		f.rest.Stop()
		f.rest = nil
	}
}

// start begins to poll and to listen; w.mu is held.
func (w *Watcher) start() (noEvents error) {
	w.poll = time.AfterFunc(w.cfg.Poll, w.lookAtAll)
	n, err := w.open()
	if err != nil {
		return err
	}
	w.notifier = n
	w.running.Go(func() {
		for e := range n.events() {
			w.happened(e)
		}
	})
	return nil
}

// end stops what start has begun; w.mu is held.
func (w *Watcher) end() {
	if w.poll == nil {
		return
	}
	w.poll.Stop()
	w.poll = nil
	clear(w.dirs)
	if n := w.notifier; n != nil {
		w.notifier = nil
		w.running.Go(n.close)
	}
}

// Close ends all watching. Nothing of the Watcher runs afterwards, except what
// hangs in a file system that has not answered for a second.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	for _, f := range w.files {
		f.forget()
	}
	clear(w.files)
	w.end()
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
