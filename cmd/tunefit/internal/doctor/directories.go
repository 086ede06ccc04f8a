package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// profilerVariable names the library whose profiler half NCCL loads.
const profilerVariable = "NCCL_PROFILER_PLUGIN"

// examineMetrics looks at the directory for Prometheus' files, if one is named.
func (d *doctor) examineMetrics(_ context.Context, r *report) {
	dir := d.env.Get(tuner.EnvMetrics)
	if dir == "" {
		return
	}
	d.relative(r, tuner.EnvMetrics)
	if err := tryWriting(r, dir); err != nil {
		r.warn("make a directory that the job can write to, and name it on every node, or unset the variable; the "+
			"job runs all the same", "%s: metrics cannot be written: %v", d.env.Show(tuner.EnvMetrics), err)
		return
	}
	if info, err := os.Stat(dir); err == nil && info.Mode()&0o005 != 0o005 {
		r.note("chmod o+rx "+dir+", unless node_exporter is in its group", "not everybody can read %s (%s)", dir,
			info.Mode().Perm())
	}
	r.fine("%s can be written to; node_exporter needs --collector.textfile.directory=%s", dir, dir)
}

// examineRecord looks at the directory for what the job records about itself, if one is named.
func (d *doctor) examineRecord(_ context.Context, r *report) {
	dir, profiler := d.env.Get(tuner.EnvRecord), d.env.Get(profilerVariable)
	if dir == "" {
		return
	}
	compares := d.env.Get(tuner.EnvCompare) != "" || d.env.Get(tuner.EnvCanary) == "1"
	if profiler == "" && !compares {
		r.warn("set "+profilerVariable+" to the tuner's library, too; or "+tuner.EnvCompare+", if comparisons are "+
			"meant",
			"%s stays empty: %s is not set, and no versions are compared", d.env.Show(tuner.EnvRecord),
			profilerVariable)
	} else if strings.Contains(profiler, "/") {
		if _, err := os.Stat(profiler); err != nil {
			r.warn("name the tuner's library", "%s: %v; calls are not recorded", d.env.Show(profilerVariable), err)
		}
	}
	d.relative(r, tuner.EnvRecord)
	there := filepath.Clean(dir) // the job makes missing folders
	for _, err := os.Stat(there); os.IsNotExist(err) && there != filepath.Dir(there); _, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	switch err := tryWriting(r, there); {
	case err != nil:
		r.warn("name a directory that the job can write to or make; the job runs all the same",
			"%s: nothing is kept there: %s: %v", d.env.Show(tuner.EnvRecord), there, err)
	case there != filepath.Clean(dir):
		r.fine("the job makes %s", dir)
	default:
		r.fine("%s can be written to", dir)
	}
}

// relative warns of a variable with a relative path.
func (d *doctor) relative(r *report, variable string) {
	if !filepath.IsAbs(d.env.Get(variable)) {
		r.warn("write an absolute path", "%s depends on the folder that each rank starts in", d.env.Show(variable))
	}
}

// writable warns of a file, and of the folder that it is in, if every user can change them.
func writable(r *report, file, consequence string) {
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			r.warn("chmod o-w "+path, "anybody can write %s, and so %s", path, consequence)
		}
	}
}

// tryWriting creates a file in a directory, as the job would, and removes it. An error says why it cannot. It warns if
// there is little room.
func tryWriting(r *report, dir string) error {
	if info, err := os.Stat(dir); err != nil {
		return safefile.Reason(err)
	} else if !info.IsDir() {
		return errors.New("it is not a directory")
	}
	probe, err := os.CreateTemp(dir, ".tmp-tunefit-doctor-*")
	if err != nil {
		return safefile.Reason(err)
	}
	probe.Close()
	os.Remove(probe.Name())
	fileSystemOf(dir).scarce(r, dir, "make room, or name another directory")
	return nil
}

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

// scarce warns of too little room or too few inodes for the records of a change. These are a few versions of policy and
// model, and a handful of small files for each rank.
func (s fileSystem) scarce(r *report, dir, do string) {
	const bytes, files = 16 << 20, 4096
	left := ""
	switch {
	case s.freeBytes < bytes:
		left = nccl.FormatBytes(s.freeBytes)
	case s.files > 0 && s.freeFiles < files:
		left = wording.Plural(int(s.freeFiles), "inode")
	default:
		return
	}
	r.warn(do, "%s is nearly full: %s left", dir, left)
}
