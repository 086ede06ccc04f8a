package watch

import (
	"errors"

	"github.com/fsnotify/fsnotify"
)

// notifier is the kernel as a source of events about directories. Tests replace it to
// simulate a kernel without room for more watches.
type notifier interface {
	// add asks for the events of a directory, by the name it has now.
	add(dir string) error
	// remove ends the events of a directory; one that was not added is no error.
	remove(dir string)
	// events ends with close, which returns when nothing runs any more.
	events() <-chan event
	close()
}

// event says that path, an entry of a directory or a directory itself, has changed.
type event struct {
	path string
	gone bool // removed or renamed away
	lost bool // events were lost; path is empty
}

type kernel struct {
	w    *fsnotify.Watcher
	out  chan event
	stop chan struct{}
	done chan struct{}
}

func openNotifier() (notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	k := &kernel{w: w, out: make(chan event), stop: make(chan struct{}), done: make(chan struct{})}
	go k.run()
	return k, nil
}

func (k *kernel) run() {
	defer close(k.done)
	defer close(k.out)
	for {
		var e event
		select {
		case got, ok := <-k.w.Events:
			if !ok {
				return
			}
			e = event{path: got.Name, gone: got.Has(fsnotify.Remove) || got.Has(fsnotify.Rename)}
		case err, ok := <-k.w.Errors:
			if !ok {
				return
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				continue // polling goes on
			}
			e = event{lost: true}
		}
		select {
		case k.out <- e:
		case <-k.stop:
			return
		}
	}
}

func (k *kernel) add(dir string) error { return k.w.Add(dir) }
func (k *kernel) remove(dir string)    { _ = k.w.Remove(dir) } // it may have gone already
func (k *kernel) events() <-chan event { return k.out }

func (k *kernel) close() {
	close(k.stop)
	k.w.Close()
	<-k.done
}
