package dirstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Shm is memory that all processes of a machine share and that no reboot keeps.
const Shm = "/dev/shm"

const (
	privatePrefix  = "nccl-tuner-go-"
	lockName       = "lock"
	aggregatorName = "aggregator"
)

// Private opens the directory of a communicator of one machine below parent,
// usually Shm. comm is equal in all its processes. What crashed jobs of the same
// user have left there is removed first.
func Private(parent, comm, identity string) (*Store, error) {
	crashed, _ := PrivateDirs(parent, os.Getuid()) // choose says what is wrong
	for _, dir := range crashed {
		removeUnused(dir)
	}
	dir, lock, err := choose(parent, clean(comm))
	if err != nil {
		return nil, err
	}
	s, err := newStore(dir, identity)
	if err != nil {
		lock.Close()
		return nil, err
	}
	s.lock = lock
	return s, nil
}

// hold takes the shared lock of a directory; with os.O_CREATE it makes the lock file. It
// returns nil if the directory has been removed or is about to be.
func hold(dir string, create int) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	lock, err := os.OpenFile(path, os.O_RDWR|create|syscall.O_NOFOLLOW, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err = flockSoon(lock, syscall.LOCK_SH); err == nil && same(lock, path) {
		return lock, nil
	}
	lock.Close()
	return nil, err
}

// owned reports whether a directory is private to this user. This process must not obey records of another
// user.
func owned(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// same reports that the open file still is the one at path. Whoever removes the directory
// holds the lock, so the answer stays true while this process holds it.
func same(f *os.File, path string) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	here, err := f.Stat()
	return err == nil && os.SameFile(here, there)
}

// flock does not wait: how is LOCK_UN or has LOCK_NB. So no signal interrupts it.
func flock(f *os.File, how int) error { return syscall.Flock(int(f.Fd()), how) }

// lockLimit bounds the wait for a lock. Whoever removes a directory holds it for moments,
// unless that process was stopped just then.
const lockLimit = 10 * time.Second

// flockSoon waits for a lock for up to lockLimit.
func flockSoon(f *os.File, how int) error {
	for began := time.Now(); ; time.Sleep(choosePause) {
		err := flock(f, how|syscall.LOCK_NB)
		if err != syscall.EWOULDBLOCK {
			return err
		}
		if time.Since(began) > lockLimit {
			return fmt.Errorf("%s: another process has kept it locked for %v (fuser -v %s names it)", f.Name(),
				lockLimit, f.Name())
		}
	}
}

// Close gives up a private directory and removes it if no other process holds it.
// A shared directory stays as it is.
func (s *Store) Close() {
	s.opened.Close()
	if s.lock == nil {
		return
	}
	lock := s.lock
	s.lock = nil
	// A forked child shares the lock and may live on, so closing alone is not enough.
	_ = flock(lock, syscall.LOCK_UN)
	lock.Close()
	removeUnused(s.root)
}

// LockAggregator makes this process the aggregator of a private directory until stop or its
// end. ok is false while another process is. A forked child does not inherit a lock of fcntl, while
// it would keep one of flock after this process has ended. Where a process takes the lock twice, the
// first stop gives it back: two aggregators cost only time.
func (s *Store) LockAggregator() (stop func(), ok bool) {
	path := filepath.Join(s.root, aggregatorName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, fileMode)
	if err != nil {
		return nil, false
	}
	if unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}) != nil {
		f.Close()
		return nil, false
	}
	return func() { f.Close() }, true
}

// removeUnused removes the directory unless a process holds its lock. It asks with a new
// descriptor, because turning a shared lock into an exclusive one releases it in between.
func removeUnused(dir string) {
	path := filepath.Join(dir, lockName)
	lock, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return // one without a lock file is being made: see choose
	}
	defer lock.Close()
	if flock(lock, syscall.LOCK_EX|syscall.LOCK_NB) != nil || !same(lock, path) {
		return
	}
	// The lock file goes last, so that a sweep that was interrupted is repeated, and nobody
	// who waits for the lock takes a half-empty directory for a fresh one.
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name() != lockName {
			if os.RemoveAll(filepath.Join(dir, e.Name())) != nil {
				return
			}
		}
	}
	os.Remove(path)
	os.Remove(dir)
}

// Everybody may create files in a directory such as Shm. Another user could take any name
// that can be guessed, and remove it at any moment. So the directory that processes share
// has a random name, and counts only if it belongs to this user, who alone can make or
// remove it. Processes that start at the same time must still choose the same one:
//
//   - A process that finds one with a lock file uses it.
//   - A process that finds none makes one. It creates the lock file only after a listing
//     shows no other. If two processes make one each before they list, each sees both, so
//     two never get a lock file.
//   - Of several without a lock file, all but the first by name are removed.

const (
	chooseLimit = 10 * time.Second
	choosePause = time.Millisecond
	// madeFor is how long a directory may be without its lock file. Its maker creates the
	// file at once, or has crashed; one that was only slow starts again.
	madeFor = time.Second
)

// choose returns the directory below parent that these processes share, and its lock, held.
func choose(parent, comm string) (dir string, lock *os.File, err error) {
	begin := filepath.Join(parent, fmt.Sprintf("%s%d-%s.", privatePrefix, os.Getuid(), comm))
	mine, seen := "", map[string]time.Time{}
	defer func() {
		if mine != "" && mine != dir {
			os.Remove(mine)
		}
	}()
	for began := time.Now(); time.Since(began) < chooseLimit; {
		ready, inMaking, err := candidates(parent, begin)
		if err != nil {
			return "", nil, err
		}
		switch {
		case ready == "" && len(inMaking) == 0:
			// If mine was there, another process has removed it as one of a crashed process.
			mine = begin + strings.ToLower(rand.Text()[:8])
			if err := os.Mkdir(mine, dirMode); err != nil {
				return "", nil, err
			}
			continue
		case ready == "" && len(inMaking) == 1 && inMaking[0] == mine:
			lock, err := hold(mine, os.O_CREATE)
			if lock != nil || err != nil {
				return mine, lock, err
			}
			continue
		case ready != "":
			lock, err := hold(ready, 0)
			if lock != nil || err != nil {
				return ready, lock, err
			}
			continue // it was removed in between
		case mine != "" && mine != inMaking[0]:
			os.Remove(mine)
			mine = ""
		}
		for _, other := range inMaking {
			if at, was := seen[other]; !was {
				seen[other] = time.Now()
			} else if other != mine && time.Since(at) > madeFor {
				os.Remove(other)
			}
		}
		time.Sleep(choosePause)
	}
	return "", nil, fmt.Errorf("the processes of this user cannot agree on a directory below %s", parent)
}

// candidates returns this user's directories whose names begin with begin: the one with a lock file, if any, and
// the empty ones, sorted. A directory with records and without a lock file does not count: somebody has removed
// the file while processes used the directory.
func candidates(parent, begin string) (ready string, inMaking []string, err error) {
	dirs, err := PrivateDirs(parent, os.Getuid())
	for _, dir := range dirs {
		if !strings.HasPrefix(dir, begin) {
			continue
		}
		entries, err := os.ReadDir(dir)
		switch {
		case err != nil: // it has just been removed
		case slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == lockName }):
			return dir, nil, nil
		case len(entries) == 0:
			inMaking = append(inMaking, dir)
		}
	}
	return "", inMaking, err
}

// RemoveUnused removes a private directory unless a process uses it, and reports
// whether it is gone.
func RemoveUnused(dir string) bool {
	removeUnused(dir)
	os.Remove(dir) // an empty one, whose maker has crashed
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// Unused reports whether RemoveUnused would remove a private directory now.
func Unused(dir string) bool {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer lock.Close()
	return flock(lock, syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// Usable returns an error if no process of this user can make a directory below parent, usually Shm. Either
// parent does not exist or it cannot be written. All processes that see the same file systems get the same
// answer.
func Usable(parent string) error {
	err := unix.Access(parent+"/.", unix.R_OK|unix.W_OK|unix.X_OK)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.EROFS):
		return &fs.PathError{Op: "access", Path: parent, Err: err}
	}
	return nil // any other error may not occur in the next process
}

// InPlace returns an error unless processes that open the directory now find this one. Somebody may have
// removed or replaced it. Processes no longer find a private directory if only its lock file is gone, see
// choose.
func (s *Store) InPlace(ctx context.Context) error {
	return s.act(ctx, lockName, func(lock string) error {
		err := s.alive()
		if err == nil && s.lock != nil && !same(s.lock, lock) {
			err = fmt.Errorf("%s: %w", lock, errReplaced)
		}
		return err
	})
}
