package watch

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// kernel tells of changes in directories. Tests replace it.
type kernel struct {
	add    func(dir string) error
	events <-chan fsnotify.Event
	errors <-chan error
	close  func() error
	ended  chan struct{} // closed before close is called
}

func openKernel() (*kernel, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &kernel{w.Add, w.Events, w.Errors, w.Close, make(chan struct{})}, nil
}

// listen asks the kernel for events about the directory that a path names, and about the one that holds the file
// after all symbolic links. It adds a directory again each time, which is cheap, because another one may have
// taken its place.
func (w *Watcher) listen(path string) {
	w.mu.Lock()
	k := w.kernel
	w.mu.Unlock()
	if k == nil {
		return
	}
	dirs := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(target) != dirs[0] {
		dirs = append(dirs, filepath.Dir(target))
	}
	for _, dir := range dirs {
		if err := k.add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fsnotify.ErrClosed) {
			w.onlyPolling(err)
		}
	}
}

// wake makes all files be looked at when something has happened in a directory, until k ends. After each event it
// rests for Debounce, because any file of the directory causes events, also a log that another process keeps
// writing. It misses nothing meanwhile: the next event finds every change before it.
func (w *Watcher) wake(k *kernel) {
	for {
		select {
		case _, ok := <-k.events:
			if !ok {
				return
			}
		case _, ok := <-k.errors: // such as lost events
			if !ok {
				return
			}
		}
		w.mu.Lock()
		for f := range w.files {
			select {
			case f.woken <- struct{}{}:
			default:
			}
		}
		w.mu.Unlock()
		select {
		case <-k.ended:
		case <-time.After(w.cfg.Debounce):
		}
	}
}

// onlyPolling says once why there are no events.
func (w *Watcher) onlyPolling(err error) {
	w.mu.Lock()
	said := w.said
	w.said = true
	w.mu.Unlock()
	if said || w.cfg.Log == nil {
		return
	}
	help := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		help = "; raise fs.inotify.max_user_watches to be told at once"
	case errors.Is(err, syscall.EMFILE):
		help = "; raise fs.inotify.max_user_instances to be told at once"
	}
	w.cfg.Log("the kernel does not tell of changes (" + err.Error() + "); files are looked at every " +
		w.cfg.Poll.String() + " instead" + help)
}
