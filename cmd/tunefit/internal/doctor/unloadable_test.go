package doctor

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// versioned builds a library that defines a version of glibc, as libc.so.6 does.
func versioned(t *testing.T, file, version string) string {
	t.Helper()
	return gcc(t, file, "int here(void) { return 0; }", "-nostdlib", "-Wl,-soname,libc.so.6",
		"-Wl,--version-script="+testlib.File(t, "versions", "GLIBC_2.17 { };\n"+version+" { here; } GLIBC_2.17;\n"))
}

// What keeps a library from being loaded is told apart: each has another remedy.
func TestDoctorUnloadable(t *testing.T) {
	dir := t.TempDir()
	newer := versioned(t, filepath.Join(dir, "newer/libc.so.6"), "GLIBC_2.99")
	needs := gcc(t, filepath.Join(dir, "libneeds.so"), "extern int here(void); int asks(void) { return here(); }",
		"-nostdlib", newer)

	whole, err := os.ReadFile(needs)
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]elf.Machine{"amd64": elf.EM_AARCH64, "arm64": elf.EM_X86_64}[runtime.GOARCH]
	const machineAt = 18 // e_machine
	foreign := binary.LittleEndian.AppendUint16(append([]byte{}, whole[:machineAt]...), uint16(other))
	foreign = append(foreign, whole[machineAt+2:]...)
	file := func(name string, content []byte) string { return testlib.File(t, name, string(content)) }

	here := processor(machines[runtime.GOARCH])
	for _, c := range []struct {
		value, path string // NCCL_TUNER_PLUGIN, LD_LIBRARY_PATH
		words       []string
	}{
		{needs, "", []string{needs, "version `GLIBC_2.99' not found",
			"take a release's library, which needs glibc 2.17, or build it on this machine: make"}},
		{"libneeds.so", dir, []string{needs, "GLIBC_2.99"}},
		{"needs", filepath.Dir(gcc(t, filepath.Join(dir, "libnccl-tuner-needs.so"),
			"extern int here(void); int asks(void) { return here(); }", "-nostdlib", newer)), []string{"GLIBC_2.99"}},
		{file("foreign.so", foreign), "", []string{"foreign.so is for " + processor(other) + ", this machine is " + here,
			"take the library for " + here}},
		{file("short.so", whole[:len(whole)/2]), "", []string{"short.so", "only the beginning of one", "sha256sum"}},
		{file("text.so", []byte("#!/bin/sh\n")), "", []string{"text.so (10 bytes) is no library", "sha256sum"}},
		{dir, "", []string{dir + " cannot be read: not a regular file but a directory", "name the library's file"}},
	} {
		t.Log(c.value, c.path)
		d := testDoctor(t, tuner.EnvPlugin+"="+c.value, "LD_LIBRARY_PATH="+c.path)
		mustFind(t, d.examine(t.Context(), only("plugin")), "plugin", isError,
			append(c.words, "NCCL loads no tuner: ")...)
	}

	if os.Getuid() != 0 { // root reads everything
		locked := file("locked.so", whole)
		if err := os.Chmod(locked, 0); err != nil {
			t.Fatal(err)
		}
		mustFind(t, testDoctor(t, tuner.EnvPlugin+"="+locked).examine(t.Context(), only("plugin")), "plugin", isError,
			locked+" cannot be read: permission denied", "chmod a+r")
	}

	// NCCL's own file, too: a process that loads one which is cut off may end by a bus error.
	d := testDoctor(t)
	d.NCCL = file(localenv.LibNCCL, whole[:len(whole)/2])
	mustFind(t, d.examine(t.Context(), only("nccl")), "nccl", isError, "NCCL cannot be loaded: "+d.NCCL,
		"only the beginning of one", "sha256sum")
}
