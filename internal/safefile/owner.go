package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// CheckOwnerAs returns an error if anybody but root and this user can change a file or directory: its owner, its
// group or everybody. A symbolic link has an owner only. Take info from the open descriptor: somebody may
// replace the file between a look at its path and the read.
func CheckOwnerAs(info fs.FileInfo, user uint32) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner is not known")
	}
	return checkOwner(st.Uid, st.Gid, info.Mode(), user)
}

// TrustVariable is the environment variable by which a user accepts files that others can change. Root in a
// container needs it if the files belong to a user outside.
const TrustVariable = "NCCL_TUNER_FILES_TRUST"

// CheckOwner is CheckOwnerAs for the user of this process and a file that he has named. The error says what to do.
// trusted: TrustVariable is set.
func CheckOwner(info fs.FileInfo, trusted bool) error {
	if trusted {
		return nil
	}
	if err := CheckOwnerAs(info, uint32(os.Geteuid())); err != nil {
		return fmt.Errorf("%w. Name a copy of your own, or set %s=1", err, TrustVariable)
	}
	return nil
}

// OpenOwned opens a regular file that nobody else can change, as CheckOwner has it. All errors are of the path.
func OpenOwned(path string, trusted bool) (*os.File, fs.FileInfo, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	if err := CheckOwner(info, trusted); err != nil {
		f.Close()
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, info, nil
}

func checkOwner(uid, gid uint32, mode fs.FileMode, user uint32) error {
	switch {
	case uid != 0 && user == 0:
		return fmt.Errorf("it belongs to user %d, and only root may decide for this process", uid)
	case uid != 0 && uid != user:
		return fmt.Errorf("it belongs to user %d, and only root and user %d may decide for this process", uid, user)
	case mode&fs.ModeSymlink != 0:
		return nil
	case mode&0o002 != 0 && mode&fs.ModeSticky != 0: // as /tmp, which is meant to be so
		return fmt.Errorf("everybody can write to it (mode 1%03o)", mode.Perm())
	case mode&0o002 != 0:
		return fmt.Errorf("everybody can write to it (mode %04o; chmod go-w ends that)", mode.Perm())
	case mode&0o020 != 0 && !private(uid, gid):
		return fmt.Errorf("its group %d can write to it (mode %04o; chmod g-w ends that)", gid, mode.Perm())
	}
	return nil
}

// private reports whether a group is its user's alone. Most distributions give each person, from number 1000 on,
// a group of the same number, which may write what the person creates. The last 16-bit numbers are nobody's.
func private(uid, gid uint32) bool {
	return uid == gid && uid >= 1000 && uid != 65534 && uid != 65535
}
