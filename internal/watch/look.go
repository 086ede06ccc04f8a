package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"
)

// coarse is the longest tick of a file system's clock (FAT and some servers keep
// even seconds): two changes within it may leave the same times.
const coarse = 2 * time.Second

// state is what a look at a file finds.
type state struct {
	id  ID
	err string // why there is nothing to be seen
}

// touch notes that the file may have changed; w.mu is held.
func (w *Watcher) touch(f *file) {
	now := time.Now()
	if f.rest == nil {
		f.first = now
	} else {
		f.rest.Stop()
	}
	var rest *time.Timer
	rest = time.AfterFunc(min(w.cfg.Debounce, w.cfg.Max-now.Sub(f.first)), func() { w.report(f, &rest) })
	f.rest = rest
}

// report tells of the file after its rest. which is the timer that it ended with:
// a timer that was stopped too late must not report twice.
func (w *Watcher) report(f *file, which **time.Timer) {
	w.mu.Lock()
	if f.rest == nil || f.rest != *which {
		w.mu.Unlock()
		return
	}
	f.rest = nil
	if f.busy {
		f.again = true
		w.mu.Unlock()
		return
	}
	f.busy = true
	w.running.Add(1)
	defer w.running.Done()
	w.mu.Unlock()

	// The look comes first: what changes while others read the file is then found
	// by the next one.
	s := w.look(f)
	w.mu.Lock()
	if s != f.state {
		f.state, f.since, f.unsure = s, time.Now(), true
	}
	tell := slices.Collect(maps.Keys(f.tell))
	if w.closed {
		tell = nil
	}
	w.mu.Unlock()
	for _, changed := range tell {
		(*changed)()
	}
	w.mu.Lock()
	w.idle(f)
	w.mu.Unlock()
}

// idle ends a look; w.mu is held.
func (w *Watcher) idle(f *file) {
	f.busy = false
	if f.again && w.files[f.path] == f {
		w.touch(f)
	}
	f.again = false
}

// lookAtAll looks at each file by itself: one on a server that is away must not
// hide the others.
func (w *Watcher) lookAtAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.poll == nil {
		return
	}
	w.poll.Reset(w.cfg.Poll)
	for _, f := range w.files {
		if f.busy || f.rest != nil {
			continue
		}
		f.busy = true
		w.running.Go(func() {
			s := w.look(f)
			w.mu.Lock()
			defer w.mu.Unlock()
			if s != f.state {
				f.again = true
			} else if f.unsure && time.Since(f.since) >= coarse {
				f.unsure = false
				f.again = true
			}
			w.idle(f)
		})
	}
}

// look finds out the file's state and listens where its fate will be decided.
func (w *Watcher) look(f *file) state {
	// What happened before the kernel was asked for events shows only by looking
	// again. A way that keeps changing is left to the next look.
	for range 3 {
		if !w.attach(f, trail(f.path)) {
			break
		}
	}
	info, err := os.Stat(f.path)
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return state{err: pathError.Err.Error()}
	} else if err != nil {
		return state{err: err.Error()}
	}
	return state{id: Identify(info)}
}

// attach asks the notifier for the events of a file's entries, and reports whether any of
// their directories is new.
func (w *Watcher) attach(f *file, entries []entry) (added bool) {
	names := map[string]bool{}
	found := map[string]fs.FileInfo{}
	for _, p := range entries {
		names[p.path()] = true
		names[p.dir] = true
		if info, err := os.Stat(p.dir); err == nil {
			found[p.dir] = info
		}
	}
	w.mu.Lock()
	if w.files[f.path] == f {
		f.entries = names
	}
	w.mu.Unlock()
	return w.settle(found)
}

// settle asks the notifier for what the files' entries need, and for no more. found
// are directories as they are now; one that took another's name is asked for anew.
func (w *Watcher) settle(found map[string]fs.FileInfo) (added bool) {
	w.asking.Lock()
	defer w.asking.Unlock()
	w.mu.Lock()
	n := w.notifier
	needed := map[string]bool{}
	for _, f := range w.files {
		maps.Copy(needed, f.entries)
	}
	var drop, ask []string
	for path, before := range w.dirs {
		if now, ok := found[path]; !needed[path] || ok && (before == nil || !os.SameFile(before, now)) {
			drop = append(drop, path)
			delete(w.dirs, path)
		}
	}
	for path := range found {
		if _, ok := w.dirs[path]; !ok && needed[path] {
			ask = append(ask, path)
		}
	}
	w.mu.Unlock()
	if n == nil {
		return false
	}
	for _, path := range drop {
		n.remove(path)
	}
	for _, path := range ask {
		err := n.add(path)
		if err == nil {
			w.mu.Lock()
			if w.notifier == n {
				w.dirs[path] = found[path]
				added = true
			}
			w.mu.Unlock()
		} else if !errors.Is(err, fs.ErrNotExist) {
			w.onlyPolling(err)
		}
	}
	return added
}

// happened handles an event.
func (w *Watcher) happened(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.dirs[e.path]; ok && e.gone {
		w.dirs[e.path] = nil // if it is there again, it is another one
	}
	for _, f := range w.files {
		if e.lost || f.entries[e.path] {
			w.touch(f)
		}
	}
}

// onlyPolling says once why there are no events, if err tells; w.mu is not held.
func (w *Watcher) onlyPolling(err error) {
	w.mu.Lock()
	silent := err == nil || w.said || w.closed || w.cfg.Log == nil
	w.said = w.said || !silent
	w.mu.Unlock()
	if silent {
		return
	}
	help := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		help = "; raise fs.inotify.max_user_watches to be told at once"
	case errors.Is(err, syscall.EMFILE):
		help = "; raise fs.inotify.max_user_instances to be told at once"
	}
	w.cfg.Log(fmt.Sprintf("the kernel does not tell of changes (%v); files are looked at every %v instead%s", err, w.cfg.Poll, help))
}
