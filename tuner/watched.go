package tuner

import (
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/watch"
)

// How often a file is looked at whatever the kernel tells, how long it must be at
// rest after a change, and the longest that a change waits for that.
const (
	lookEvery = time.Second
	restFor   = 100 * time.Millisecond
	restMax   = time.Second
)

// files watches the policy's files for all communicators of the process.
var files = watchedFiles{byNames: map[[2]string]*watchedSet{}}

type watchedFiles struct {
	mu      sync.Mutex
	byNames map[[2]string]*watchedSet
	watcher *watch.Watcher // nil while there is nothing to watch
}

// watchedSet is a policy file and a model file that belong together.
type watchedSet struct {
	settings settings
	getenv   func(string) string
	stops    []func()

	reading sync.Mutex // held while the files are read
	seen    readStates // what was read last

	mu      sync.Mutex // guards what follows; held for moments only
	log     Log
	good    version // as last read
	members map[*live]bool
}

// watch offers each new version of the settings' files to l's member until stop. own
// is what they were when the member joined.
func (w *watchedFiles) watch(s settings, own version, getenv func(string) string, log Log, l *live) (stop func()) {
	key := [2]string{s.configFile, s.modelFile}
	set, sure := w.join(key, s, own, getenv, log, l)
	if !sure {
		set.read(true)
	}
	return func() { w.unwatch(key, set, l) }
}

// join adds l to those who hear of the files. sure is false if they were read since l
// has read them, or before that: l may have missed a change.
func (w *watchedFiles) join(key [2]string, s settings, own version, getenv func(string) string, log Log, l *live) (set *watchedSet, sure bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set = w.byNames[key]
	if set == nil {
		set = &watchedSet{settings: s, getenv: getenv, good: own, seen: own.read, members: map[*live]bool{}}
		set.settings.strict, set.settings.keeping = false, true
		w.byNames[key] = set
		if w.watcher == nil {
			w.watcher = watch.New(watch.Config{Poll: lookEvery, Debounce: restFor, Max: restMax,
				Log: func(text string) { log.Infof("%s", text) }})
		}
		for _, file := range key {
			if file != "" {
				set.stops = append(set.stops, w.watcher.Add(file, set.changed))
			}
		}
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	set.members[l] = true
	set.log = log
	return set, set.good.read == own.read
}

func (w *watchedFiles) unwatch(key [2]string, set *watchedSet, l *live) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set.mu.Lock()
	delete(set.members, l)
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

// changed is told that the files may have changed.
func (s *watchedSet) changed() { s.read(false) }

// read offers what the files mean now to all members, if they have changed or if asked
// to in any case: a member takes no notice of what it knows. A bad file changes
// nothing: the version in force stays.
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
	same := s.seen == readStates{s.settings.openPolicy().state(), s.settings.openModel()().state()}
	if same && (!always || s.seen != good.read) {
		return
	}
	v, sound, _ := loadVersion(s.settings, s.getenv, log)
	s.seen = v.read
	if !sound {
		log.Warnf("keeping version %.12s of %s", good.meaning(), s.settings.files())
		return
	}
	if len(v.content) > maxLiveBytes { // read for a communicator that was created later
		log.Warnf("%s: %v; keeping version %.12s", s.settings.files(), tooLarge(int64(len(v.content)), maxLiveBytes), good.meaning())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = v
	for l := range s.members {
		l.member.Offer(v.shared())
	}
}
