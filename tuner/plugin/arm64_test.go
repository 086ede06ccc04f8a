//go:build cgo

package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

// TestArm64 does on arm64 what the other tests do here: the library is built with a
// cross compiler and loaded by the same C programs, which QEMU runs. QEMU keeps the
// order of memory of the machine it runs on: what arm64 may reorder is not tested.
func TestArm64(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH == "arm64" {
		t.Skip("this is arm64: all other tests are that")
	}
	long(t)
	compiler, emulate := arm64Tools(t)
	p, err := build(t.TempDir(), "GOARCH=arm64", "CC="+compiler)
	if err != nil {
		t.Fatal(err)
	}
	p.scenarios, p.rank = script(t, emulate+" "+p.scenarios), script(t, emulate+" "+p.rank)

	exports(t, p.so)
	hardened(t, p.so)
	largePages(t, p.so)
	nightly := os.Getenv(nccltest.EnvNightly) != ""
	for i, name := range scenarios {
		if i%8 > 0 && !nightly {
			continue // QEMU takes seconds for each
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, p.scenarios, p.so, name, few()...)
		})
	}
	if nightly {
		t.Run("edits", func(t *testing.T) {
			t.Parallel()
			editSlowly(t, p, 3)
		})
	}
}

// largePages checks that a library can be loaded where pages have 64 KiB, as kernels for
// NVIDIA Grace often have them.
func largePages(t *testing.T, so string) {
	t.Helper()
	file, err := elf.Open(so)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && p.Align < 64<<10 {
			t.Errorf("a segment is aligned to %d bytes only", p.Align)
		}
	}
}

// arm64Tools finds a compiler for arm64 and the command that runs what it makes, or
// skips the test.
func arm64Tools(t *testing.T) (compiler, emulate string) {
	t.Helper()
	compiler = anyProgram(t, "aarch64-linux-gnu-gcc")
	emulator := anyProgram(t, "qemu-aarch64", "qemu-aarch64-static")
	libc, _ := exec.Command(compiler, "-print-file-name=libc.so.6").Output()
	emulate = emulator + " -L " + filepath.Dir(filepath.Dir(strings.TrimSpace(string(libc))))
	program := filepath.Join(t.TempDir(), "program")
	try := fmt.Sprintf("echo 'int main(void) { return 0; }' | %s -x c -o %[2]s - && %s %[2]s", compiler,
		program, emulate)
	if out, err := exec.Command("sh", "-c", try).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no program for arm64 can be made and run: %v\n%s", err, out)
	}
	return compiler, emulate
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
