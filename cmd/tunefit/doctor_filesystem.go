package main

import (
	"fmt"
	"syscall"
)

// sharing says whether several nodes can see the same files.
type sharing int8

const (
	unsure sharing = iota
	local
	shared
)

// fileSystem is what a directory is on.
type fileSystem struct {
	name                        string
	kind                        sharing
	freeBytes, files, freeFiles uint64 // for this user
}

func (s fileSystem) String() string {
	return s.name + [...]string{" (shared or not is not known)", " (local)", " (shared)"}[s.kind]
}

// fileSystems knows them by the numbers of Linux' magic.h and of their own headers.
var fileSystems = map[uint32]fileSystem{
	0x01021994: {name: "tmpfs", kind: local},
	0x858458f6: {name: "ramfs", kind: local},
	0xef53:     {name: "ext4", kind: local},
	0x58465342: {name: "xfs", kind: local},
	0x9123683e: {name: "btrfs", kind: local},
	0xf2f52010: {name: "f2fs", kind: local},
	0x2fc12fc1: {name: "zfs", kind: local},
	0xca451a4e: {name: "bcachefs", kind: local},
	0x4d44:     {name: "vfat", kind: local},
	0x2011bab0: {name: "exfat", kind: local},
	0x73717368: {name: "squashfs", kind: local},
	0x794c7630: {name: "overlayfs", kind: local},

	0x6969:     {name: "NFS", kind: shared},
	0x0bd00bd0: {name: "Lustre", kind: shared},
	0x47504653: {name: "GPFS", kind: shared},
	0x19830326: {name: "BeeGFS", kind: shared},
	0x00c36400: {name: "CephFS", kind: shared},
	0xff534d42: {name: "CIFS", kind: shared},
	0xfe534d42: {name: "SMB", kind: shared},
	0x517b:     {name: "SMB", kind: shared},
	0x5346414f: {name: "AFS", kind: shared},
	0x7461636f: {name: "OCFS2", kind: shared},
	0x01161970: {name: "GFS2", kind: shared},
	0x20030528: {name: "OrangeFS", kind: shared},
	0xaad7aaea: {name: "PanFS", kind: shared},

	0x65735546: {name: "FUSE"},
	0x01021997: {name: "9P"},
}

const plenty = 1 << 62

func fileSystemOf(dir string) fileSystem {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fileSystem{name: "an unknown file system", freeBytes: plenty}
	}
	magic := uint32(st.Type)
	s, known := fileSystems[magic]
	if !known {
		s.name = fmt.Sprintf("a file system of type %#x", magic)
	}
	s.freeBytes = st.Bavail * uint64(st.Bsize)
	if st.Blocks == 0 { // it does not count them
		s.freeBytes = plenty
	}
	s.files, s.freeFiles = st.Files, st.Ffree
	return s
}
