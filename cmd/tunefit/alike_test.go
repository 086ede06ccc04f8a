package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What decides, what tells NCCL's own choice and what simulates must compute the same
// on every machine. Where one can round a product and a sum at once, as arm64 can, the
// compiler must not use that: float64() around the product forbids it. Fits are not
// here: they are rounded when they are written.
func TestNoFusedArithmetic(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	packages := []string{"policy", "policy/lint", "topo", "topo/channels", "topo/mesh", "topo/tuning", "topo/internal/cnum", "topo/internal/cycle", "bench", "bench/simulate", "tuner"}
	args := []string{"build", "-gcflags=-S"}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	out := goForArm64(t, args...)
	listings := strings.Split(out, "# github.com/nccl-tuner-go/nccl-tuner-go/")[1:]
	if len(listings) != len(packages) {
		t.Errorf("%d packages were compiled, not %d", len(listings), len(packages))
	}
	if !strings.Contains(out, "FMULD") || !strings.Contains(out, "FMULS") {
		t.Error("no floating-point arithmetic found at all")
	}
	for _, line := range regexp.MustCompile(`(?m)^.*\bFN?M(ADD|SUB)[SD]\b.*$`).FindAllString(out, -1) {
		t.Error(strings.TrimSpace(line))
	}
}

// The tests that compare results with recorded ones to the bit, run as arm64 computes.
func TestAlikeOnArm64(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	emulator, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		emulator, err = exec.LookPath("qemu-aarch64-static")
	}
	if err != nil {
		t.Skip("SKIPPED: there is no qemu-aarch64")
	}
	out := goForArm64(t, "test", "-count=1", "-v", "-exec", emulator, "-run", "Alike|TestGolden", "./policy", "./bench/simulate")
	for _, test := range []string{"TestAlikeOnAllMachines", "TestGolden"} {
		if !strings.Contains(out, "--- PASS: "+test) {
			t.Errorf("%s was not run:\n%s", test, out)
		}
	}
}

// goForArm64 runs the go command for arm64 in the module's directory and returns what
// it printed.
func goForArm64(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
