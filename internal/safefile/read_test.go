package safefile

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
	file, fifo, link, socket := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link"),
		filepath.Join(dir, "socket")
	if err := os.WriteFile(file, []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(fifo, link),
		syscall.Mknod(socket, syscall.S_IFSOCK|0o600, 0)); err != nil {
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
		if f != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) ||
			!errors.As(err, new(*fs.PathError)) {
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

// A file that is sparse, or grows while it is read, takes no more memory than it may.
func TestReadLarge(t *testing.T) {
	const most = 1 << 20
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64]string{4: "", most: "", most + 1: "larger than 1 MiB",
		20 << 30: "larger than 1 MiB"} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		text, err := Read(path, most)
		if want == "" && (err != nil || int64(len(text)) != size || !strings.HasPrefix(string(text), "text")) {
			t.Errorf("%d bytes: read %d: %v", size, len(text), err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v; want %s", size, err, want)
		}
	}
	if text, err := Read("/proc/self/stat", most); err != nil || len(text) < 10 { // of size 0 as the kernel tells it
		t.Errorf("/proc/self/stat: %q, %v", text, err)
	}
}
