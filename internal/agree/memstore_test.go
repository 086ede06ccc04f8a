package agree

import (
	"strings"
	"sync"
	"time"
)

// memStore is a store of records in memory that misbehaves on request, for simulations: the
// truth behind all handles. Each rank has a memHandle; its faults are drawn from a seed, or chosen
// by the test. All waiting is done with package time, so in a synctest bubble it takes no time at
// all.
type memStore struct {
	// Landed, if not nil, is told of each record that comes to exist. It is called
	// under the store's lock.
	Landed func(h *memHandle, key string, value []byte)

	mu      sync.Mutex
	records map[string]memRecord
	made    uint64                     // records so far
	dirs    map[string]map[string]bool // last path elements by directory
}

type memRecord struct {
	value []byte
	at    time.Time
	by    *memHandle
	nth   uint64 // of all records ever made
}

// newMemStore returns an empty memStore.
func newMemStore() *memStore {
	return &memStore{records: map[string]memRecord{}, dirs: map[string]map[string]bool{}}
}

func split(key string) (dir, name string) {
	i := strings.LastIndexByte(key, '/')
	return key[:max(i, 0)], key[i+1:]
}

// Put creates a record as h would, without delay and failure, unless it exists.
func (s *memStore) Put(h *memHandle, key string, value []byte) (stands []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.records[key]; ok {
		return r.value
	}
	s.made++
	s.add(key, memRecord{append([]byte(nil), value...), time.Now(), h, s.made})
	return value
}

func (s *memStore) add(key string, r memRecord) {
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
func (s *memStore) Move(h *memHandle, from, to string) bool {
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
func (s *memStore) Lookup(key string) (value []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[key]
	return r.value, ok
}

// Keys returns the keys that begin with prefix.
func (s *memStore) Keys(prefix string) (keys []string) {
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
func (s *memStore) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delete(key)
}

func (s *memStore) delete(key string) {
	delete(s.records, key)
	dir, name := split(key)
	delete(s.dirs[dir], name)
}

// Restore puts the records of an older copy, made by Copy, in the place of all that
// there are: the same contents, but new records.
func (s *memStore) Restore(old map[string][]byte) {
	for _, key := range s.Keys("") {
		s.Delete(key)
	}
	for key, value := range old {
		s.Put(nil, key, value)
	}
}

// Copy returns what is stored.
func (s *memStore) Copy() map[string][]byte {
	all := map[string][]byte{}
	for _, key := range s.Keys("") {
		all[key], _ = s.Lookup(key)
	}
	return all
}

// seen returns the record as h sees it.
func (s *memStore) seen(h *memHandle, key string) (value []byte, ok bool) {
	r, ok := s.records[key]
	if !ok || r.by != h && r.nth > h.fresh && time.Since(r.at) < h.lag(key) {
		return nil, false
	}
	return r.value, true
}
