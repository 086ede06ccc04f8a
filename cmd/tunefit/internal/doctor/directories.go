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

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// profilerVariable names the library whose profiler half NCCL loads.
const profilerVariable = "NCCL_PROFILER_PLUGIN"

// examineMetrics looks at the directory for Prometheus' files, if one is named.
func (d *doctor) examineMetrics(context.Context) []Finding {
	dir := d.env.Get(tuner.EnvMetrics)
	if dir == "" {
		return nil
	}
	found := d.relative(tuner.EnvMetrics)
	of, err := tryWriting(dir)
	if err != nil {
		const do = "make a directory that the job can write to, and name it on every node, or unset the variable; " +
			"the job runs all the same"
		return append(found, warned(do, "%s: metrics cannot be written: %v", d.env.Show(tuner.EnvMetrics), err))
	}
	found = append(found, of...)
	if info, err := os.Stat(dir); err == nil && info.Mode()&0o005 != 0o005 {
		found = append(found, noted("chmod o+rx "+dir+", unless node_exporter is in its group",
			"not everybody can read %s (%s)", dir, info.Mode().Perm()))
	}
	return append(found, fine("%s can be written to; node_exporter needs --collector.textfile.directory=%s", dir, dir))
}

// examineRecord looks at the directory for what the job records about itself, if one is named.
func (d *doctor) examineRecord(context.Context) (found []Finding) {
	dir, profiler := d.env.Get(tuner.EnvRecord), d.env.Get(profilerVariable)
	if dir == "" {
		return nil
	}
	compares := d.env.Get(tuner.EnvCompare) != "" || d.env.Get(tuner.EnvCanary) == "1"
	switch {
	case profiler == "" && !compares:
		found = append(found, warned("set "+profilerVariable+" to the tuner's library, too; or "+tuner.EnvCompare+
			", if comparisons are meant",
			"%s stays empty: %s is not set, and no versions are compared", d.env.Show(tuner.EnvRecord),
			profilerVariable))
	case strings.Contains(profiler, "/"):
		if _, err := os.Stat(profiler); err != nil {
			found = append(found, warned("name the tuner's library", "%s: %v; calls are not recorded",
				d.env.Show(profilerVariable), err))
		}
	}
	found = append(found, d.relative(tuner.EnvRecord)...)
	there := filepath.Clean(dir) // the job makes missing folders
	for _, err := os.Stat(there); os.IsNotExist(err) && there != filepath.Dir(there); _, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	of, err := tryWriting(there)
	if err != nil {
		return append(found, warned("name a directory that the job can write to or make; the job runs all the same",
			"%s: nothing is kept there: %s: %v", d.env.Show(tuner.EnvRecord), there, err))
	}
	found = append(found, of...)
	if there != filepath.Clean(dir) {
		return append(found, fine("the job makes %s", dir))
	}
	return append(found, fine("%s can be written to", dir))
}

// relative warns of a variable with a relative path.
func (d *doctor) relative(variable string) []Finding {
	if filepath.IsAbs(d.env.Get(variable)) {
		return nil
	}
	return []Finding{warned("write an absolute path", "%s depends on the folder that each rank starts in",
		d.env.Show(variable))}
}

// writable warns of a file, and of the folder that it is in, if every user can change them.
func writable(file, consequence string) (found []Finding) {
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			found = append(found, warned("chmod o-w "+path, "anybody can write %s, and so %s", path, consequence))
		}
	}
	return found
}

// tryWriting creates a file in a directory, as the job would, and removes it. An error says why it cannot. found has a
// warning if there is little room.
func tryWriting(dir string) (found []Finding, err error) {
	info, err := os.Stat(dir)
	var probe *os.File
	switch {
	case err != nil:
	case !info.IsDir():
		return nil, errors.New("it is not a directory")
	default:
		probe, err = os.CreateTemp(dir, ".tmp-tunefit-doctor-*")
	}
	if err != nil {
		return nil, safefile.Reason(err)
	}
	probe.Close()
	os.Remove(probe.Name())
	if scarce := fileSystemOf(dir).scarce(); scarce != "" {
		found = append(found, warned("make room, or name another directory", "%s is nearly full: %s", dir, scarce))
	}
	return found, nil
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
