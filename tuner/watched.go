package tuner

import (
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/watch"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// How often a file is polled besides the kernel's events, how long it must be unchanged after
// an edit, and the longest wait for that.
const (
	lookEvery = time.Second
	restFor   = 100 * time.Millisecond
	restMax   = time.Second
)

// watchedFiles watches the policy's files for all communicators of the process.
type watchedFiles struct {
	mu      sync.Mutex
	byNames map[[2]string]*watchedSet
	watcher *watch.Watcher // nil while there is nothing to watch
}

// watchedSet is a policy file and a model file that belong together.
type watchedSet struct {
	plugin   *Plugin
	settings settings
	stops    []func()

	reading sync.Mutex // held while the files are read
	last    loaded     // what was read last

	mu      sync.Mutex // guards what follows; held for moments only
	log     telemetry.Log
	good    *version // as last read
	members map[*agree.Member]bool
}

// watch offers each new version of c's files to its member until stop. own is what they
// were when the member joined.
func (p *Plugin) watch(c *Comm, own loaded) (stop func()) {
	w := &p.watched
	key := [2]string{c.settings.configFile, c.settings.modelFile}
	set, sure := p.joinWatch(key, c, own)
	if !sure {
		set.read(true)
	}
	return func() { w.leave(key, set, c.member) }
}

// joinWatch adds c's member to those that are offered edits. sure is false if the files were
// read at another time than c has read them: c may have missed an edit.
func (p *Plugin) joinWatch(key [2]string, c *Comm, own loaded) (set *watchedSet, sure bool) {
	w := &p.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	set = w.byNames[key]
	if set == nil {
		set = &watchedSet{plugin: p, settings: c.settings, good: own.version, last: own, members: map[*agree.Member]bool{}}
		set.settings.strict, set.settings.reloading = false, true
		w.byNames[key] = set
		if w.watcher == nil {
			w.watcher = watch.New(watch.Config{Poll: lookEvery, Debounce: restFor, Max: restMax,
				Log: func(text string) { c.log.Infof("%s", text) }})
		}
		for _, file := range key {
			if file != "" {
				set.stops = append(set.stops, w.watcher.Add(file, set.changed))
			}
		}
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	set.members[c.member] = true
	set.log = c.log
	return set, set.good == own.version
}

func (w *watchedFiles) leave(key [2]string, set *watchedSet, m *agree.Member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set.mu.Lock()
	delete(set.members, m)
	last := len(set.members) == 0
	set.mu.Unlock()
	if !last {
		return
	}
	delete(w.byNames, key)
	for _, stop := range set.stops {
		stop()
	}
	if len(w.byNames) == 0 {
		w.watcher.Close()
		w.watcher = nil
	}
}

// changed is the watcher's callback: the files may have changed.
func (s *watchedSet) changed() { s.read(false) }

// read offers the version of the files to all members, if the files have changed or always is
// set: a member ignores what it was offered before. A bad file changes nothing, so the
// version in force stays.
func (s *watchedSet) read(always bool) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	log, good := s.log, s.good
	s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			log.Warnf("a defect in the plugin: %v; a change of %s is not taken up", p, s.settings.files())
		}
	}()
	f := s.plugin.loadFiles(s.settings)
	if f == s.last.read && (!always || s.last.version != good) {
		return
	}
	s.last, _ = s.plugin.use(f, s.settings, log)
	if !s.last.valid {
		log.Warnf("keeping version %.12s of %s, the last without errors", good.Meaning(), s.settings.files())
		return
	}
	v := s.last.version
	if len(v.content) > MaxLiveBytes { // read for a communicator that was created later
		log.Warnf("%s: %v; keeping version %.12s", s.settings.files(), tooLarge(int64(len(v.content)), MaxLiveBytes), good.Meaning())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = v
	for m := range s.members {
		m.Offer(v.shared())
	}
}
