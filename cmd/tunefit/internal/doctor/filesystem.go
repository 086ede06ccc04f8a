package doctor

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Whether several nodes can see the same files.
const (
	local  = "local"
	shared = "shared"
	unsure = "shared or not is not known"
)

// fileSystem is what a directory is on.
type fileSystem struct {
	name, kind                  string
	freeBytes, files, freeFiles uint64 // for this user
}

func (s fileSystem) String() string { return s.name + " (" + s.kind + ")" }

// fileSystems lists the ones that clusters use, by f_type of statfs(2). Named numbers are those of Linux' magic.h; the
// others have their source beside them.
var fileSystems = map[uint32]fileSystem{
	unix.TMPFS_MAGIC:           {name: "tmpfs", kind: local},
	unix.EXT4_SUPER_MAGIC:      {name: "ext4", kind: local},
	unix.XFS_SUPER_MAGIC:       {name: "xfs", kind: local},
	unix.BTRFS_SUPER_MAGIC:     {name: "btrfs", kind: local},
	unix.OVERLAYFS_SUPER_MAGIC: {name: "overlayfs", kind: local}, // no two nodes may mount one upper layer
	0x2fc12fc1:                 {name: "zfs", kind: local},       // OpenZFS: ZFS_SUPER_MAGIC

	unix.NFS_SUPER_MAGIC:  {name: "NFS", kind: shared},
	unix.CEPH_SUPER_MAGIC: {name: "CephFS", kind: shared},
	unix.CIFS_SUPER_MAGIC: {name: "CIFS", kind: shared},
	unix.SMB2_SUPER_MAGIC: {name: "SMB", kind: shared},
	unix.SMB_SUPER_MAGIC:  {name: "SMB", kind: shared},
	0x0bd00bd0:            {name: "Lustre", kind: shared}, // lustre_user.h: LL_SUPER_MAGIC
	0x19830326:            {name: "BeeGFS", kind: shared}, // its client's FhgfsOpsSuper.h: BEEGFS_MAGIC
	0x47504653:            {name: "GPFS", kind: shared},   // coreutils' stat.c
	0x18031977:            {name: "WekaFS", kind: shared}, // libfuse's fusermount.c, and stat -f on such mounts

	unix.FUSE_SUPER_MAGIC: {name: "FUSE", kind: unsure},
}

const plenty = 1 << 62

func fileSystemOf(dir string) fileSystem {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fileSystem{name: "an unknown file system", kind: unsure, freeBytes: plenty}
	}
	magic := uint32(st.Type)
	s, known := fileSystems[magic]
	if !known {
		s.name, s.kind = fmt.Sprintf("a file system of type %#x", magic), unsure
	}
	s.freeBytes = st.Bavail * uint64(st.Bsize)
	if st.Blocks == 0 { // it does not count them
		s.freeBytes = plenty
	}
	s.files, s.freeFiles = st.Files, st.Ffree
	return s
}
