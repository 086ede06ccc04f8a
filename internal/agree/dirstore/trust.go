package dirstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
)

// ErrForeign means that users other than root and this one can change a directory of records, or a record. This
// process must not obey them.
var ErrForeign = errors.New("is not this user's alone")

// trust says from whom a Store takes records.
type trust struct {
	user uint32 // records count that belong to this user or to root
	all  bool   // records of everybody count
	// refused, if not nil, is called with the reason when a record is refused.
	refused func(error)
}

// TrustAll makes the store take records from everybody who can write into its
// directory. It must be called before the store is used.
func (s *Store) TrustAll() { s.trust.all = true }

// JudgeAsOwner makes the store refuse what the processes of the directory's owner refuse. If others can write
// there, only processes that trust everybody use the directory. JudgeAsOwner is for a tool that only shows
// records. It must be called before the store is used.
func (s *Store) JudgeAsOwner() {
	info, err := s.opened.Stat()
	if err != nil {
		return
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.trust.user = st.Uid
	}
	s.trust.all = errors.Is(s.Check(), ErrForeign)
}

// OnRefusal makes the store call f each time it refuses a record because it is another user's. It must be
// called before the store is used.
func (s *Store) OnRefusal(f func(error)) { s.trust.refused = f }

// check refuses the file or directory at path, which info describes.
func (t trust) check(path string, info fs.FileInfo) error {
	if t.all {
		return nil
	}
	err := safefile.CheckOwnerAs(info, t.user)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s %w: %w", path, ErrForeign, err)
	if t.refused != nil {
		t.refused(err)
	}
	return err
}

// Check returns an error if somebody else can write into the directory or into the folders of records in it.
// The folders further below need no check: this user has made them for himself alone.
func (s *Store) Check() error {
	info, err := os.Stat(s.root)
	if err != nil {
		return err
	}
	if err := s.trust.check(s.root, info); err != nil {
		return err
	}
	for _, below := range recordDirs {
		path := filepath.Join(s.root, below)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = s.trust.check(path, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
