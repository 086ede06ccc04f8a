package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, fifo, link, socket := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link"), filepath.Join(dir, "socket")
	if err := os.WriteFile(file, []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(fifo, link), syscall.Mknod(socket, syscall.S_IFSOCK|0o600, 0)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		fifo:        "not a regular file but a FIFO",
		link:        "not a regular file but a FIFO",
		dir:         "not a regular file but a directory",
		"/dev/null": "not a regular file but a device",
		socket:      "no such device or address",
		file + "x":  "no such file",
	} {
		f, _, err := Open(path) // a FIFO without a writer would hang here
		if f != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || !errors.As(err, new(*fs.PathError)) {
			t.Errorf("%s: %v, %v; want %q", path, f, err, want)
		}
	}
	f, info, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := make([]byte, 9)
	if n, err := f.Read(text); string(text[:n]) != "text" || err != nil || info.Mode() != 0o640 {
		t.Errorf("read %q, %v of a file %v", text[:n], err, info.Mode())
	}
}
