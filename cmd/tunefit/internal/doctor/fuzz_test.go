package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What launchers make of the lines of answers.
func FuzzAnswers(f *testing.F) {
	var lines bytes.Buffer
	if err := WriteAnswer(&lines, []finding{{Check: "plugin", Found: strings.Repeat("x", 3000)}}); err != nil {
		f.Fatal(err)
	}
	f.Add(lines.String())
	f.Add(answerMark + " n 1 1/2 W10=\n" + answerMark + " n 1 2/1 W10=\n0: " + answerMark + " n 1 1/1 W10=")
	f.Fuzz(func(t *testing.T, text string) {
		var a Answers
		for line := range strings.Lines(text) {
			if was := a.Count(); !a.Read(line) && (strings.Contains(line, answerMark+" n 1 1/1 W10=") || a.Count() != was) {
				t.Errorf("%q is not taken for an answer", line)
			}
		}
		if a.Count() > strings.Count(text, answerMark) {
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
		d.glibcs = []string{path}
		for _, found := range d.unloadable(path, "it cannot be loaded") {
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
		for _, found := range d.examineLimits(t.Context()) {
			if found.Found == "" {
				t.Errorf("%+v", found)
			}
		}
	})
}
