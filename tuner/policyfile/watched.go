package policyfile

// The first step of an edit during a run. internal/watch reports that a file may have changed. A watchedSet reads both
// files, once for all communicators of the process that use them, and offers the new version to each. What each rank
// then does with it is up to package tuner and internal/agree.

import (
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/watch"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// Times of watch.Config.
const (
	lookEvery = time.Second            // Poll: NFS has no events for what another machine writes
	restFor   = 100 * time.Millisecond // Debounce
	restMax   = time.Second            // Max
)

// watchedSet is a policy file and a model file that belong together. All communicators of the process that
// use both share it.
type watchedSet struct {
	loader   *Loader
	settings Settings
	watcher  *watch.Watcher

	reading sync.Mutex // held while the files are read, guards what follows
	files   [2]*file   // as last read
	last    *Version   // of these files; Faulty if one of them cannot be used

	mu    sync.Mutex // guards what follows; held for moments only
	log   telemetry.Log
	good  *Version // what the first user had, then the latest without errors
	users map[*user]bool
}

// user is a communicator that wants to hear of edits.
type user struct{ offer func(*Version) }

// Watch offers each new version of the files until stop is called. own is what the caller read last. Any
// goroutine may call offer, which must return at once. It may be given the same version again.
func (l *Loader) Watch(s Settings, own *Version, log telemetry.Log, offer func(*Version)) (stop func()) {
	one := &user{offer}
	set, sure := l.joinWatch(s, own, log, one)
	if !sure {
		set.read(true)
	}
	return func() { l.leaveWatch(set, one) }
}

func (s Settings) key() [2]Named { return [2]Named{s.Policy, s.Model} }

// joinWatch adds a user. sure is false if the files were read at another time than own. The user may then have
// missed an edit.
func (l *Loader) joinWatch(s Settings, own *Version, log telemetry.Log, one *user) (set *watchedSet, sure bool) {
	l.watching.Lock()
	defer l.watching.Unlock()
	set = l.watched[s.key()]
	if set == nil {
		set = &watchedSet{loader: l, settings: s, good: own, last: own, users: map[*user]bool{}}
		l.mu.Lock()
		set.files = own.from
		l.mu.Unlock()
		set.settings.live = true
		l.watched[s.key()] = set
		set.watcher = watch.New(watch.Config{Poll: lookEvery, Debounce: restFor, Max: restMax,
			Log: func(text string) { log.Infof("%s", text) }})
		for _, file := range s.key() {
			if file.Path != "" {
				set.watcher.Add(file.Path, func() { set.read(false) })
			}
		}
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	set.users[one] = true
	set.log = log
	return set, set.good.id == own.id
}

func (l *Loader) leaveWatch(set *watchedSet, one *user) {
	l.watching.Lock()
	defer l.watching.Unlock()
	set.mu.Lock()
	delete(set.users, one)
	last := len(set.users) == 0
	set.mu.Unlock()
	if last {
		delete(l.watched, set.settings.key())
		set.watcher.Close()
	}
}

// read offers the version of the files to all users, if the files have changed or always is set.
// A bad file changes nothing: the version in force stays.
func (s *watchedSet) read(always bool) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	log, good := s.log, s.good
	s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			log.Warnf("a defect in the plugin: %v; an edit of %s is ignored", p, s.settings.names())
		}
	}()
	f := s.loader.loadFiles(s.settings)
	if f == s.files && (!always || s.last != good) {
		return
	}
	v, err := s.loader.use(f, s.settings, log)
	s.files, s.last = f, v
	if err != nil || v.Faulty {
		log.Warnf("keeping version %.12s of %s, the last without errors", good.EffectDigest(), s.settings.names())
		return
	}
	if len(v.content) > MaxLiveBytes { // read for a communicator that was created later
		log.Warnf("%s: %v; keeping version %.12s", s.settings.names(), tooLarge(len(v.content)),
			good.EffectDigest())
		s.loader.judged(s.settings.names(), true)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = v
	for one := range s.users {
		one.offer(v)
	}
}
