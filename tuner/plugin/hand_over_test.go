//go:build cgo

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// The C side of a change by itself, every order of events that a job shows rarely; with
// AddressSanitizer, too, where the compiler has it.
func TestHandOver(t *testing.T) {
	t.Parallel()
	for _, sanitize := range []string{"", "address,undefined"} {
		if sanitize != "" && !hasSanitizer(sanitize) {
			t.Logf("SKIPPED: this compiler has no -fsanitize=%s", sanitize)
			continue
		}
		dir := t.TempDir()
		program := filepath.Join(dir, "hand_over")
		if out, err := exec.Command("make", "-s", "-C", "../..", "BUILD="+dir, "SANITIZE="+sanitize, program).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := exec.Command(program).CombinedOutput(); err != nil {
			t.Errorf("sanitizers %q: %v\n%s", sanitize, err, out)
		}
	}
}
