package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Mark implements agree.Store: by the record's inode and, where the file system knows it,
// the time at which it was made. Neither changes when the file is renamed or touched, as
// sites do that keep files from being purged.
func (s *Store) Mark(ctx context.Context, key string) (string, error) {
	mark, err := do(ctx, s, key, func(path string) (string, error) {
		if err := s.alive(); err != nil {
			return "", err
		}
		return mark(path)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", s.alive()
	}
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
