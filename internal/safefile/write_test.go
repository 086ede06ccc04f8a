package safefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	for _, text := range []string{"a longer first", "second"} {
		if err := Write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		info, errStat := os.Stat(name)
		if err != nil || errStat != nil || string(got) != text || info.Mode().Perm() != 0o644 {
			t.Errorf("%q, %v, %v, want %q", got, err, errStat, text)
		}
	}
	// A place that cannot be taken keeps what it has, and nothing else stays.
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if Write(taken, nil) == nil || Write(filepath.Join(dir, "nowhere", "f"), nil) == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v", left)
	}
}

// What is written survives as a whole, with the permissions of the file before. A write that fails leaves that file
// as it is.
func TestWriteDurable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	half := errors.New("half of it")
	for _, test := range []struct {
		fails error
		want  string
	}{{half, "before"}, {nil, "after"}} {
		err := WriteDurable(name, func(w io.Writer) error {
			_, err := io.WriteString(w, "after")
			return errors.Join(err, test.fails)
		})
		got, _ := os.ReadFile(name)
		info, errStat := os.Stat(name)
		if !errors.Is(err, test.fails) || errStat != nil || string(got) != test.want || info.Mode().Perm() != 0o600 {
			t.Errorf("%v: %q, %v", err, got, errStat)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(name)); len(left) != 1 {
		t.Errorf("%v", left)
	}
}

// Who names a pipe wants what is written in it, not a file in its place.
func TestWriteToAPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, err := os.ReadFile(name)
		read <- fmt.Sprint(string(text), err)
	}()
	if err := WriteDurable(name, func(w io.Writer) error {
		_, err := io.WriteString(w, "text")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "text<nil>" {
		t.Error(got)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() {
		t.Error(err, info.Mode())
	}
}
