// Package golden compares answers with those that were taken from NCCL itself. They lie beside the checkout, in
// shared/data/topo, and are not part of it; without them the tests that need them are skipped.
package golden

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dir finds the folder from any package of the module.
func dir(t testing.TB) string {
	t.Helper()
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for at != filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			break
		}
		at = filepath.Dir(at)
	}
	folder := filepath.Join(at, "..", "shared", "data", "topo")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("SKIPPED: NCCL's own answers are not there, nothing was compared (%v)", err)
	}
	return folder
}

// Files lists the files of a name, one per system; with -short every eighth.
func Files(t testing.TB, name string) []string {
	t.Helper()
	folder := dir(t)
	var files []string
	for _, pattern := range []string{"*", "fuzz/*"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Skipf("SKIPPED: no %s below %s", name, folder)
	}
	if testing.Short() {
		var some []string
		for chunk := range slices.Chunk(files, 8) {
			some = append(some, chunk[0])
		}
		return some
	}
	return files
}

// System is the name of the system that a file belongs to.
func System(file string) string {
	d := filepath.Dir(file)
	if parent := filepath.Base(filepath.Dir(d)); parent == "fuzz" {
		return "fuzz/" + filepath.Base(d)
	}
	return filepath.Base(d)
}

// Topology is the input that the answers in a file were computed from.
func Topology(file string) string { return filepath.Join(filepath.Dir(file), "system.xml") }

// Environment reads the variables of a variant, NAME=value,NAME=value. Names that are not of the form are settings of the
// program that asked NCCL.
func Environment(variant string) map[string]string {
	env := map[string]string{}
	for setting := range strings.SplitSeq(variant, ",") {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	return env
}
