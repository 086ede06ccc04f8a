// Package dirstore keeps the records of agreeing ranks as files of a directory. The directory is on the
// machine, or one that all machines share, NFS included.
//
// A Store lives from Open, Private or Look to Close, and any goroutine may use it. A shared
// directory belongs to the user and stays. A private one, which Private opens, lies within
// one machine and lives as long as a process holds it open: each process holds a shared
// lock. The last process to close it, or the next job after a crash, gets the lock alone and
// removes the directory. Its name cannot be guessed, but all processes of the user find it.
//
// A record is written to a file of its own and then linked to its name, so that
// it appears whole and only once. Directories are 0700 and files 0600.
package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
)

// Store is a directory of records.
type Store struct {
	root string
	tag  string // of this process's temporary files
	next atomic.Uint64
	// busy bounds the number of goroutines that a hanging file system blocks.
	busy chan struct{}
	lock *os.File // of a private directory
	// opened is root as it was when the store was opened. It stays open, so that no other directory can get
	// its inode and be taken for it.
	opened *os.File
	trust
}

const (
	dirMode  = 0o700
	fileMode = 0o600
	// tempPrefix marks files that are no records; keys have no such element.
	tempPrefix = ".tmp-"
	maxBusy    = 16
)

// Open uses dir, which is created if its parent exists. identity must be unique
// among all processes that use the directory, on all machines.
func Open(dir, identity string) (*Store, error) {
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return newStore(dir, identity)
}

func newStore(dir, identity string) (*Store, error) {
	opened, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0) // a store never recovers from a file
	if err != nil {
		return nil, err
	}
	return &Store{root: dir, tag: clean(identity), busy: make(chan struct{}, maxBusy), opened: opened,
		trust: trust{user: uint32(os.Geteuid())}}, nil
}

// clean makes a file name of any text.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, text)
}

// Dir is where the records lie.
func (s *Store) Dir() string { return s.root }

// PutOnce implements agree.Store.
func (s *Store) PutOnce(ctx context.Context, key string, value []byte) ([]byte, error) {
	return do(ctx, s, key, func(path string) ([]byte, error) {
		if err := s.alive(); err != nil {
			return nil, err
		}
		temp := filepath.Join(filepath.Dir(path), fmt.Sprintf("%s%s-%d", tempPrefix, s.tag, s.next.Add(1)))
		err := s.create(temp, path, value)
		if refused(err) {
			if stands, err := s.read(path); err == nil {
				return stands, nil
			}
			return nil, fmt.Errorf("%w: %w", agree.ErrRefused, err)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err == nil {
			return value, nil
		}
		// Another rank was first, or an earlier try of this rank whose reply was lost.
		return s.read(path)
	})
}

// create makes path with the value, or fails with fs.ErrExist.
func (s *Store) create(temp, path string, value []byte) error {
	write := func() error { return writeNew(temp, value) }
	inMemory := s.lock != nil && fitsLink(value)
	if inMemory {
		write = func() error { return symlink(value, path) }
	}
	err := write()
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.makeDirs(filepath.Dir(path)); err != nil {
			return err
		}
		err = write()
	}
	if inMemory {
		return err
	}
	if full(err) && fitsLink(value) {
		return symlink(value, path)
	}
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	err = os.Link(temp, path)
	if err == nil {
		return nil
	}
	// Over NFS the reply of a link that succeeded may be lost, and the client's
	// repetition then finds the name taken, by this very file.
	if info, statErr := os.Lstat(temp); statErr == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink == 2 {
			return nil
		}
	}
	return err
}

// writeNew writes a file that did not exist. Over NFS and with quotas only close
// tells whether there was room.
func writeNew(path string, value []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(value)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}

// makeDirs creates the directories below the root that are missing. It never creates the root:
// a directory that was swept away must not come back as another one.
func (s *Store) makeDirs(dir string) error {
	if dir == s.root {
		return nil
	}
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.makeDirs(filepath.Dir(dir)); err == nil {
			err = os.Mkdir(dir, dirMode)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Get implements agree.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, bool, error) {
	return find(ctx, s, key, s.read)
}

// find is do for what looks at a record or a folder; found is false where there is none.
func find[T any](ctx context.Context, s *Store, key string,
	look func(path string) (T, error)) (value T, found bool, err error) {
	value, err = do(ctx, s, key, func(path string) (T, error) {
		value, err := look(path)
		if errors.Is(err, fs.ErrNotExist) && s.lock == nil {
			// An NFS client remembers for up to a minute that a name does not exist,
			// unless it opens the directory anew and sees that it has changed.
			if f, err := os.Open(filepath.Dir(path)); err == nil {
				f.Close()
			}
			value, err = look(path)
		}
		return value, err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return value, false, s.alive()
	}
	return value, err == nil, err
}

// Move implements agree.Store. Over NFS the reply may be lost: its repetition finds
// nothing.
func (s *Store) Move(ctx context.Context, from, to string) error {
	return s.act(ctx, from, func(source string) error {
		target, err := s.path(to)
		if err == nil {
			err = s.alive()
		}
		if err == nil {
			// The time of the record is that of the decision, and a rename would keep the old time.
			_ = unix.UtimesNanoAt(unix.AT_FDCWD, source, []unix.Timespec{{Nsec: unix.UTIME_NOW},
				{Nsec: unix.UTIME_NOW}}, unix.AT_SYMLINK_NOFOLLOW)
			err = os.Rename(source, target)
		}
		if errors.Is(err, fs.ErrNotExist) && s.alive() == nil {
			if err = s.makeDirs(filepath.Dir(target)); err == nil {
				err = os.Rename(source, target)
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = agree.ErrNoRecord
			}
		}
		return err
	})
}

// errReplaced means that this process cannot reach its communicators' records any more.
var errReplaced = errors.New("another directory has taken the place of the rendezvous")

// alive returns an error if the directory is missing, mounted over, or removed and made again. Without an
// error, a record that is not found does not exist.
func (s *Store) alive() error {
	now, err := os.Stat(s.root)
	if err != nil {
		return err
	}
	opened, err := s.opened.Stat()
	if err == nil && !os.SameFile(now, opened) {
		err = fmt.Errorf("%s: %w", s.root, errReplaced)
	}
	return err
}

// List implements agree.Store.
func (s *Store) List(ctx context.Context, dir string) ([]string, error) {
	names, _, err := find(ctx, s, dir, func(path string) ([]string, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		info, err := f.Stat()
		if err == nil {
			err = s.check(path, info)
		}
		if err != nil {
			return nil, err
		}
		all, err := f.Readdirnames(-1)
		names := all[:0]
		for _, name := range all {
			if !strings.HasPrefix(name, tempPrefix) {
				names = append(names, name)
			}
		}
		return names, err
	})
	return names, err
}

// Remove implements agree.Store. It removes the directories, too.
func (s *Store) Remove(ctx context.Context, key string) error { return s.act(ctx, key, os.RemoveAll) }

func (s *Store) path(key string) (string, error) {
	if !filepath.IsLocal(key) {
		return "", fmt.Errorf("dirstore: %q is no key", key)
	}
	return filepath.Join(s.root, filepath.FromSlash(key)), nil
}

// act is do for an operation that has no result.
func (s *Store) act(ctx context.Context, key string, operation func(path string) error) error {
	_, err := do(ctx, s, key, func(path string) (struct{}, error) { return struct{}{}, operation(path) })
	return err
}

// do runs an operation on the file of a key and waits for it until ctx ends. A file server may be away for
// hours, and no signal ends a system call that waits for it, so the goroutine may stay. A private
// directory is in memory, where no operation waits: the caller runs it, which wakes no thread.
func do[T any](ctx context.Context, s *Store, key string, operation func(path string) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	path, err := s.path(key)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return none, err
	}
	if s.lock != nil {
		return operation(path)
	}
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	done := make(chan result, 1)
	go func() {
		value, err := operation(path)
		<-s.busy
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Where a disk is full, and always in a private directory, a small record is a symbolic link with
// the value as its target. Creating one is as atomic as link(2), a single system call, and takes no
// block. File systems keep a short link in the inode, ext4 up to 59 bytes
// and tmpfs of any length, so ranks can still join. (From its promise on a rank needs only
// empty records, which need no block either, and a decision is a rename; the first of each kind
// makes a directory.)

// maxLink is the longest value that is kept as a link.
const maxLink = 1023

func fitsLink(value []byte) bool {
	return len(value) > 0 && len(value) <= maxLink && !strings.Contains(string(value), "\x00")
}

// refused reports that the operation has had no effect and will have none.
func refused(err error) bool {
	return full(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// symlink makes a record a symbolic link. An error does not repeat the record, as os's
// would.
func symlink(value []byte, path string) error {
	err := os.Symlink(string(value), path)
	if at := (*os.LinkError)(nil); errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: path, Err: at.Err}
	}
	return err
}

// mostRecord bounds a record: a version of two files at their limits has 128 MiB.
const mostRecord = 256 << 20

// read returns a record of either kind.
func (s *Store) read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		info, err := os.Lstat(path)
		if err == nil {
			err = s.check(path, info)
		}
		if err != nil {
			return nil, err
		}
		value, err := os.Readlink(path)
		return []byte(value), err
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no record but %v", path, info.Mode().Type())
	}
	if err := s.check(path, info); err != nil {
		return nil, err
	}
	return safefile.All(f, mostRecord)
}

// Mark implements agree.Store: by the record's inode and, where the file system knows it,
// the time at which it was made. Neither changes when the file is renamed or touched, as
// sites do that keep files from being purged.
func (s *Store) Mark(ctx context.Context, key string) (string, error) {
	mark, _, err := find(ctx, s, key, func(path string) (string, error) {
		if err := s.alive(); err != nil {
			return "", err
		}
		return mark(path)
	})
	return mark, err
}

// mark opens the record, because over NFS its attributes may otherwise be a minute old.
func mark(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	fd, name, flags := unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW
	switch {
	case err == nil:
		defer f.Close()
		fd, name, flags = int(f.Fd()), "", unix.AT_EMPTY_PATH
	case !errors.Is(err, syscall.ELOOP):
		return "", err
	}
	var st unix.Statx_t
	err = statx(fd, name, flags, unix.STATX_INO|unix.STATX_BTIME, &st)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		var old unix.Stat_t
		err = unix.Fstatat(fd, name, &old, flags)
		st.Ino = old.Ino
	}
	if err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mask&unix.STATX_BTIME == 0 {
		st.Btime = unix.StatxTimestamp{}
	}
	return fmt.Sprintf("%d-%d.%09d", st.Ino, st.Btime.Sec, st.Btime.Nsec), nil
}

// statx is missing before Linux 4.11, and forbidden in containers of that age.
var statx = unix.Statx

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
	for _, below := range agree.Dirs {
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
