package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// The rendezvous is one that the job can use, and nothing is left in it.
func TestDoctorRendezvous(t *testing.T) {
	here := func(name string, mode os.FileMode) string {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	mine, open, live := here("mine", 0o700), here("open", 0o777), here("live", 0o777|os.ModeSticky)
	file := testlib.File(t, "file", "")
	alone := fileSystemOf(mine).kind == local
	const is = tuner.EnvRendezvous + "="
	for _, c := range []struct {
		variable string
		nodes    int
		want     severity
		words    []string
	}{
		{"", 1, isFine, []string{"for a record"}},
		{"", 2, isWarning, []string{"not set", "2 nodes"}},
		{tuner.EnvReload + "=off", 2, isNote, []string{"not used"}},
		{tuner.EnvReload + "=new", 2, isNote, []string{"created later only"}},
		{tuner.EnvDeterministic + "=1", 2, isNote, []string{"not used: NCCL_TUNER_DETERMINISTIC=1"}},
		{is + mine, 1, isFine, []string{mine, "for a record"}},
		{is + filepath.Join(mine, "coming"), 1, isFine, []string{"will create coming"}},
		{is + filepath.Join(mine, "not", "coming"), 1, isError, []string{"no such file",
			"install -d -m 1777 " + filepath.Join(mine, "not")}},
		{is + filepath.Join(live, "4711"), 1, isFine, []string{"will create 4711"}},
		{is + live, 1, isError, []string{"refused", is + filepath.Join(live, "JOB")}},
		{is + filepath.Join(open, "4711"), 1, isWarning, []string{"chmod +t " + open}},
		{is + file, 1, isError, []string{"not a directory"}},
		{is + open, 1, isError, []string{"refused", open + " is not this user's alone: everybody can write to it",
			tuner.EnvTrust + "=1", is + filepath.Join(open, "JOB")}},
		{is + "redis://:SECRET@host", 1, isError, []string{"redis://***@host is not understood"}},
		{is + "nfs://server/dir", 1, isError, []string{"not understood"}},
		{is + "/proc/self", 1, isError, []string{"records cannot be put"}},
	} {
		d := testDoctor(t, c.variable)
		d.Nodes = c.nodes
		t.Log(c.variable)
		mustFind(t, d.examine(t.Context(), only("rendezvous")), "rendezvous", c.want, c.words...)
	}
	d := testDoctor(t, is+open, tuner.EnvTrust+"=1")
	mustFind(t, d.examine(t.Context(), only("rendezvous")), "rendezvous", isWarning, "whoever can write there decides")
	if alone {
		d := testDoctor(t, is+mine)
		d.Nodes = 2
		mustFind(t, d.examine(t.Context(), only("rendezvous")), "rendezvous", isWarning, "this node's alone")
	}
	for _, dir := range []string{mine, open, live} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// An etcd needs a library, and a tunefit, that are built for it.
func TestDoctorEtcd(t *testing.T) {
	testlib.NeedPlugin(t)
	d := testDoctor(t, tuner.EnvPlugin+"="+testlib.Library, tuner.EnvRendezvous+"=etcd://127.0.0.1:1/x")
	findings := d.examine(t.Context(), only("rendezvous"))
	mustFind(t, findings, "rendezvous", isError, "without etcd", "make etcd")
	if tuner.HasEtcd {
		mustFind(t, findings, "rendezvous", isError, "cannot be reached")
	} else {
		mustFind(t, findings, "rendezvous", isNote, "cannot ask it")
	}
}

// What this machine has mounted is called as the kernel calls it.
func TestFileSystemNames(t *testing.T) {
	names := map[string]string{"overlay": "overlayfs", "nfs": "NFS", "nfs4": "NFS", "cifs": "CIFS", "ceph": "CephFS",
		"lustre": "Lustre", "gpfs": "GPFS",
		"beegfs": "BeeGFS", "wekafs": "WekaFS", "virtiofs": "FUSE", "fuse": "FUSE", "ext2": "ext4",
		"ext3": "ext4"}
	for _, same := range []string{"tmpfs", "ext4", "xfs", "btrfs", "zfs"} {
		names[same] = same
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		want := names[fields[2]]
		info, err := os.Stat(fields[1])
		if want == "" || err != nil || !info.IsDir() {
			continue
		}
		seen++
		if got := fileSystemOf(fields[1]); got.name != want {
			t.Errorf("%s, a %s, is called %s", fields[1], fields[2], got)
		}
	}
	if seen == 0 {
		t.Skip("SKIPPED: no file system that doctor knows is mounted here")
	}
}

// Room that is too little is told before a job runs out of it.
func TestFileSystemScarce(t *testing.T) {
	for _, c := range []struct {
		fileSystem
		want string
	}{
		{fileSystem{freeBytes: 1 << 30, files: 1 << 20, freeFiles: 1 << 19}, ""},
		{fileSystem{freeBytes: 1 << 20, files: 1 << 20, freeFiles: 1 << 19}, "1MiB left"},
		{fileSystem{freeBytes: 1 << 30, files: 1 << 20, freeFiles: 1}, "1 inode left"},
		{fileSystem{freeBytes: 1 << 30}, ""}, // btrfs counts no inodes
	} {
		var r report
		c.scarce(&r, "/live", "")
		if got := r.sound(); got != (c.want == "") || !got && r[0].Found != "/live is nearly full: "+c.want {
			t.Errorf("%+v: %v, want %q", c.fileSystem, r, c.want)
		}
	}
}
