package dirstore

import (
	"bytes"
	"os"
	"sync"
)

// spare is a file of the size of a page, kept for the time when the disk is full.
// A rank that has promised must be able to record a decision, or it waits until
// the job fails; and linking a file that is there needs no room.
type spare struct {
	mu   sync.Mutex
	path string // empty if none is wanted
	full bool   // it is there
}

const spareSize = 4096

// keep makes a spare at path. It fails silently: on a disk that is full from the
// start there is none.
func (s *spare) keep(path string) {
	s.mu.Lock()
	s.path = path
	s.mu.Unlock()
	s.refill()
}

func (s *spare) refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != "" && !s.full {
		s.full = writeNew(s.path, bytes.Repeat([]byte{' '}, spareSize)) == nil
	}
}

// use turns the spare into a temporary file with the value.
func (s *spare) use(temp string, value []byte) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.full || len(value) > spareSize {
		return false
	}
	s.full = false
	f, err := os.OpenFile(s.path, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	// Writing over what is there needs no room, except where files are copied on
	// write.
	_, err = f.Write(value)
	if err == nil {
		err = f.Truncate(int64(len(value)))
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(s.path, temp)
	}
	if err != nil {
		os.Remove(s.path)
		return false
	}
	return true
}

func (s *spare) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		os.Remove(s.path)
	}
	s.path, s.full = "", false
}
