// Package nccltest compares answers with those that were taken from NCCL itself. testdata/README.md says what there is.
package nccltest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// EnvNightly makes tests compare everything, as `make nightly` does.
const EnvNightly = "NIGHTLY"

// input is the file name of the topologies that NCCL was asked about. Names of gzipped answers end with packed.
const (
	input  = "system.xml"
	packed = ".gz"
)

// root finds the module's folder from any of its packages.
func root(t testing.TB) string {
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
	return at
}

// Files lists the files of a name, one per system. With -short it takes every fourth. The nightly run adds vendors'
// systems, which are not part of the repository, if they lie beside the checkout.
func Files(t testing.TB, name string) []string {
	t.Helper()
	files := below(t, filepath.Join(root(t), "internal", "testkit", "nccltest", "testdata", "topo"), name)
	if testing.Short() {
		var some []string
		for i := 0; i < len(files); i += 4 {
			some = append(some, files[i])
		}
		return some
	}
	if os.Getenv(EnvNightly) != "" {
		all := filepath.Join(root(t), "..", "shared", "data", "topo")
		if _, err := os.Stat(all); err != nil {
			t.Logf("SKIPPED: the systems that are not part of this repository (%v)", err)
			return files
		}
		return below(t, all, name)
	}
	return files
}

// below lists the files of a name in a folder.
func below(t testing.TB, folder, name string) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*/" + name, "fuzz/*/" + name} {
		found, err := filepath.Glob(filepath.Join(folder, pattern+"*")) // packed or not
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Fatalf("no %s below %s", name, folder)
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
func Topology(file string) string { return filepath.Join(filepath.Dir(file), input) }

// Environment reads the variables of a variant, NAME=value,NAME=value. Names that do not begin with NCCL_ are
// settings of the program that asked NCCL.
func Environment(variant string) map[string]string {
	env := map[string]string{}
	for setting := range strings.SplitSeq(variant, ",") {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	return env
}
