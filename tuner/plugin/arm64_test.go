//go:build cgo

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestArm64 does on arm64 what the other tests do here: the library is built with a
// cross compiler and loaded by the same C programs, which QEMU runs. QEMU keeps the
// order of memory of the machine it runs on: what arm64 may reorder is not tested.
func TestArm64(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH == "arm64" {
		t.Skip("this is arm64: all other tests are that")
	}
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	compiler := anyProgram(t, "aarch64-linux-gnu-gcc")
	emulator := anyProgram(t, "qemu-aarch64", "qemu-aarch64-static")
	p, err := build(t.TempDir(), "GOARCH=arm64", "CC="+compiler)
	if err != nil {
		t.Fatal(err)
	}
	libc, err := exec.Command(compiler, "-print-file-name=libc.so.6").Output()
	if err != nil {
		t.Fatal(err)
	}
	emulate := emulator + " -L " + filepath.Join(filepath.Dir(strings.TrimSpace(string(libc))), "..")
	p.scenarios, p.rank = script(t, emulate+" "+p.scenarios), script(t, emulate+" "+p.rank)

	exports(t, p.so)
	for _, name := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, p.scenarios, p.so, name)
		})
	}
	t.Run("edits", func(t *testing.T) {
		t.Parallel()
		editALot(t, p, 5)
	})
}

// anyProgram finds the first of some programs, or skips the test.
func anyProgram(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("SKIPPED: there is no %s", names[0])
	return ""
}

// script makes a program of a command.
func script(t *testing.T, command string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\"\n", command), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
