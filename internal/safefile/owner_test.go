package safefile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckOwner(t *testing.T) {
	const me, group, other = 1000, 1000, 1001
	for _, c := range []struct {
		uid, gid uint32
		mode     fs.FileMode
		want     string // "" for mine
	}{
		{me, group, 0o600, ""},
		{me, 50, 0o644, ""},
		{0, 0, 0o644, ""},
		{me, group, 0o664, ""}, // as umask 002 makes files, with a group of one's own
		{me, 50, 0o664, "its group 50 can write to it (mode 0664"},
		{0, 0, 0o664, "its group 0 can write"},
		{me, group, 0o666, "everybody can write to it (mode 0666"},
		{0, 0, fs.ModeDir | fs.ModeSticky | 0o777, "everybody can write to it (mode 1777)"},
		{other, group, 0o600, "it belongs to user 1001, and only root and user 1000"},
		{65534, 65534, 0o600, "it belongs to user 65534"},
		{me, group, fs.ModeSymlink | 0o777, ""},
		{other, group, fs.ModeSymlink | 0o777, "it belongs to user 1001"},
	} {
		if err := checkOwner(c.uid, c.gid, c.mode, me); (err == nil) != (c.want == "") ||
			err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%d:%d %v: %v, want %q", c.uid, c.gid, c.mode, err, c.want)
		}
	}
	// For root nobody else's is good, and the group of nobody is many a daemon's.
	if checkOwner(65534, 65534, 0o660, 65534) == nil {
		t.Error("not refused")
	}
	if err := checkOwner(me, group, 0o600, 0); err == nil ||
		err.Error() != "it belongs to user 1000, and only root may decide for this process" {
		t.Errorf("for root: %v", err)
	}
	// The file itself counts, not what the umask of this test would make of it.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, sound := range map[os.FileMode]bool{0o644: true, 0o646: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckOwnerAs(info, uint32(os.Geteuid())); (err == nil) != sound {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
