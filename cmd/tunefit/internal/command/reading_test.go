package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal returns a terminal, and a function that closes it and returns what it was to show.
func terminal(t *testing.T) (*os.File, func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // ends with an error once the other side is closed
		shown <- string(text)
	}()
	return tty, func() string {
		tty.Close()
		return <-shown
	}
}

// Who reads many files sees on a terminal how far that is, and nothing of it stays there or goes into a file.
func TestReadingShowsProgress(t *testing.T) {
	t.Setenv("TERM", "xterm")
	dir := t.TempDir()
	for i := range 3 {
		text := fmt.Sprintf("collective,size_bytes,nodes,ranks,time_us\nallreduce,%d,1,8,10\n", 1024<<i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.csv", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	line := regexp.MustCompile(`\r\x1b\[K\x1b\[\?7l\[-{20}\] 0 of 3 files: reading 0.csv\x1b\[\?7h`)
	for _, command := range []string{"import", "import --default", "profile"} {
		args := append(strings.Fields(command), dir)
		tty, end := terminal(t)
		Run(newEnv(nil), args, io.Discard, tty)
		shown := end()
		if !line.MatchString(shown) {
			t.Errorf("%v shows no progress: %q", args, shown)
		}
		if _, after, _ := strings.Cut(shown[strings.LastIndex(shown, "\x1b[?7h"):], "\r\x1b[K"); after == "" ||
			strings.Contains(after, "\x1b") {
			t.Errorf("%v leaves the line behind: %q", args, shown)
		}
		var file bytes.Buffer
		Run(newEnv(nil), args, io.Discard, &file)
		if strings.Contains(file.String(), "\x1b") || strings.Contains(file.String(), " of 3 ") {
			t.Errorf("%v writes its progress into a file: %q", args, file.String())
		}
	}
}
