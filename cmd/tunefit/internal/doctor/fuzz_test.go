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
		for _, found := range d.unloadable(path) {
			if !strings.Contains(found.Found, path) || found.Do == "" {
				t.Errorf("%+v", found)
			}
		}
	})
}
