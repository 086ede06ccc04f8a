package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// What launchers make of the lines of answers.
func FuzzAnswers(f *testing.F) {
	var lines bytes.Buffer
	if err := WriteAnswer(&lines, []Finding{{Check: "plugin", Found: strings.Repeat("x", 3000)}}); err != nil {
		f.Fatal(err)
	}
	f.Add(lines.String())
	const whole = `{"tunefit":"n 1","at":0,"of":1,"check":"nccl"}`
	f.Add(`{"tunefit":"n 1","at":0,"of":2}` + "\n" + `{"tunefit":"n 1","at":2,"of":1}` + "\n0: " + whole)
	f.Fuzz(func(t *testing.T, text string) {
		var a Answers
		for line := range strings.Lines(text) {
			if was := a.Count(); !a.Read(line) && (strings.HasPrefix(line, whole) || a.Count() != was) {
				t.Errorf("%q is not taken for an answer", line)
			}
		}
		if a.Count() > strings.Count(text, `{"tunefit":`) {
			t.Errorf("%d answers in %q", a.Count(), text)
		}
	})
}

// A file under the library's name: whatever is in it, doctor says something about it or nothing, and names it.
func FuzzLibrary(f *testing.F) {
	self, err := os.ReadFile("/lib64/ld-linux-x86-64.so.2")
	if err == nil {
		f.Add(self[:min(len(self), 1<<12)])
	}
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Add([]byte("#!/bin/sh\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "lib.so")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		d := testDoctor(t)
		var r report
		d.unloadable(&r, path, "it cannot be loaded", "")
		for _, found := range r {
			if !strings.Contains(found.Found, path) || found.Do == "" {
				t.Errorf("%+v", found)
			}
		}
	})
}

// What the kernel says of limits in /proc and in cgroups.
func FuzzLimits(f *testing.F) {
	f.Add("Max processes             96227                96227                processes\n", "0::/a/b\n", "Uid:\t1000\n"+
		"CapEff:\t0000000000000000\nThreads:\t4\n", "100")
	f.Add("Max processes -9223372036854775808", "1:pids:/../..\n::\n0::", "Uid:\nThreads: x", "9223372036854775807")
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, limits, cgroup, status, most string) {
		for name, text := range map[string]string{"proc/self/limits": limits, "proc/self/cgroup": cgroup,
			"proc/self/status": status, "proc/1/status": status, "cgroup/pids.max": most, "cgroup/pids.current": most} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		d := testDoctor(t)
		d.proc, d.cgroups = filepath.Join(root, "proc"), filepath.Join(root, "cgroup")
		for _, found := range d.examine(t.Context(), only("limits")) {
			if found.Found == "" {
				t.Errorf("%+v", found)
			}
		}
	})
}

func BenchmarkWorstAnswers(b *testing.B) {
	line := func(process string, at, of int, rest string) string {
		return fmt.Sprintf(`{"tunefit":"%s","at":%d,"of":%d%s`, process, at, of, rest) + "\n"
	}
	var complete strings.Builder // but for a line that is damaged
	for i := range 999 {
		complete.WriteString(line("n 1", i, 1000, "}"))
	}
	hostile.Benchmark(b, func(text []byte) error {
		var a Answers
		for line := range strings.Lines(string(text)) {
			a.Read(line)
		}
		return nil
	},
		hostile.Text{Head: complete.String(), Unit: line("n 1", 998, 1000, "}")},
		hostile.Text{Head: complete.String(), Unit: line("n 1", 999, 1000, "")},
		hostile.Text{Unit: line("n%d 1", 0, 1000, "}")}, hostile.Text{Unit: line("n 1", 0, 1, "}")},
		hostile.Text{Unit: line("n 1", 0, 1000, "}") + line("n 1", 0, 999, "}")},
		hostile.Text{Unit: `{"tunefit":"`}, hostile.Text{Unit: `{"tunefit":"n 1",`},
	)
}

func BenchmarkWorstLibrary(b *testing.B) {
	path := filepath.Join(b.TempDir(), "lib.so")
	d := testDoctor(b)
	hostile.Benchmark(b, func(text []byte) error {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			b.Fatal(err)
		}
		var r report
		if d.unloadable(&r, path, "it cannot be loaded", "") {
			return errors.New(r[0].Found)
		}
		return nil
	}, hostile.Text{Head: "\x7fELF\x02\x01\x01", Unit: "\x01"})
}

func BenchmarkWorstLimits(b *testing.B) {
	d := testDoctor(b)
	hostile.Benchmark(b, func(text []byte) error {
		for _, name := range []string{"self/limits", "self/cgroup", "self/status", "1/status"} {
			name = filepath.Join(d.proc, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(name, text, 0o644); err != nil {
				b.Fatal(err)
			}
		}
		d.examine(b.Context(), only("limits"))
		return nil
	}, hostile.Text{Unit: "0::/a\n"}, hostile.Text{Head: "0::/", Unit: "../"}, hostile.Text{Unit: "Threads: 1\n"})
}
