// Package fileowner says whose a file is, before what it holds decides for a job.
package fileowner

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Check returns an error if somebody else than root and the user of this process can
// change a file or directory: its owner, its group or everybody. A symbolic link has
// an owner only. Take info from an open descriptor, so that a file that is replaced
// meanwhile is judged as what is read.
func Check(info fs.FileInfo) error { return CheckAs(info, uint32(os.Geteuid())) }

// CheckAs is Check for the processes of a user.
func CheckAs(info fs.FileInfo, user uint32) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("its owner is not known")
	}
	return check(st.Uid, st.Gid, info.Mode(), user)
}

// TrustVariable is the environment variable by which a user lets others decide by the
// files that he names: root in a container, say, whose files are those of a user outside.
const TrustVariable = "NCCL_TUNER_FILES_TRUST"

// CheckFile is Check for a file that the user has named, and says what to do. trusted
// tells that TrustVariable is set.
func CheckFile(info fs.FileInfo, trusted bool) error {
	if trusted {
		return nil
	}
	if err := Check(info); err != nil {
		return fmt.Errorf("%w. Name a copy of your own, or set %s=1", err, TrustVariable)
	}
	return nil
}

func check(uid, gid uint32, mode fs.FileMode, user uint32) error {
	switch {
	case uid != 0 && uid != user:
		return fmt.Errorf("it belongs to user %d, and only root and user %d may decide for this process", uid, user)
	case mode&fs.ModeSymlink != 0:
		return nil
	case mode&0o002 != 0:
		return fmt.Errorf("everybody can write to it (mode %04o; chmod go-w ends that)", mode.Perm())
	case mode&0o020 != 0 && !private(uid, gid):
		return fmt.Errorf("its group %d can write to it (mode %04o; chmod g-w ends that)", gid, mode.Perm())
	}
	return nil
}

// private reports whether a group is its user's alone: most distributions give each
// person, from number 1000 on, a group of the same number, and make what they create
// writable by it. The last 16-bit numbers are nobody's.
func private(uid, gid uint32) bool {
	return uid == gid && uid >= 1000 && uid != 65534 && uid != 65535
}
