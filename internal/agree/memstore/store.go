// Package memstore is a store of records in memory that misbehaves on request,
// for simulations. Each rank has a Handle; its faults are drawn from a seed, or chosen by the
// test. All waiting is done with package time, so in a
// synctest bubble it takes no time at all.
package memstore

import (
	"strings"
	"sync"
	"time"
)

// Store is the truth behind all handles.
type Store struct {
	// Landed, if not nil, is told of each record that comes to exist. It is called
	// under the store's lock.
	Landed func(h *Handle, key string, value []byte)

	// NoRecord is the error of a move of nothing.
	NoRecord error

	mu      sync.Mutex
	records map[string]record
	made    uint64                     // records so far
	dirs    map[string]map[string]bool // last path elements by directory
}

type record struct {
	value []byte
	at    time.Time
	by    *Handle
	nth   uint64 // of all records ever made
}

// New returns an empty Store.
func New() *Store {
	return &Store{records: map[string]record{}, dirs: map[string]map[string]bool{}}
}

func split(key string) (dir, name string) {
	i := strings.LastIndexByte(key, '/')
	return key[:max(i, 0)], key[i+1:]
}

// Put creates a record as h would, without delay and failure, unless it exists.
func (s *Store) Put(h *Handle, key string, value []byte) (stands []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.records[key]; ok {
		return r.value
	}
	s.made++
	s.add(key, record{append([]byte(nil), value...), time.Now(), h, s.made})
	return value
}

func (s *Store) add(key string, r record) {
	s.records[key] = r
	dir, name := split(key)
	if s.dirs[dir] == nil {
		s.dirs[dir] = map[string]bool{}
	}
	s.dirs[dir][name] = true
	if s.Landed != nil && r.by != nil {
		s.Landed(r.by, key, r.value)
	}
}

// Move gives a record another key, without delay, and reports whether it was there.
func (s *Store) Move(h *Handle, from, to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[from]
	if ok {
		s.delete(from)
		r.by, r.at = h, time.Now()
		s.add(to, r)
	}
	// An NFS client that goes to the server for the directory sees what is there.
	h.fresh = s.made
	return ok
}

// Lookup returns what is stored, without delay.
func (s *Store) Lookup(key string) (value []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[key]
	return r.value, ok
}

// Keys returns the keys that begin with prefix.
func (s *Store) Keys(prefix string) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.records {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Delete removes a record at once.
func (s *Store) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delete(key)
}

func (s *Store) delete(key string) {
	delete(s.records, key)
	dir, name := split(key)
	delete(s.dirs[dir], name)
}

// Restore puts the records of an older copy, made by Copy, in the place of all that
// there are: the same contents, but new records.
func (s *Store) Restore(old map[string][]byte) {
	for _, key := range s.Keys("") {
		s.Delete(key)
	}
	for key, value := range old {
		s.Put(nil, key, value)
	}
}

// Copy returns what is stored.
func (s *Store) Copy() map[string][]byte {
	all := map[string][]byte{}
	for _, key := range s.Keys("") {
		all[key], _ = s.Lookup(key)
	}
	return all
}

// seen returns the record as h sees it.
func (s *Store) seen(h *Handle, key string) (value []byte, ok bool) {
	r, ok := s.records[key]
	if !ok || r.by != h && r.nth > h.fresh && time.Since(r.at) < h.lag(key) {
		return nil, false
	}
	return r.value, true
}
