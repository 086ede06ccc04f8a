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
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	listings := strings.Split(string(out), "# github.com/nccl-tuner-go/nccl-tuner-go/")[1:]
	if len(listings) != len(packages) {
		t.Errorf("%d packages were compiled, not %d", len(listings), len(packages))
	}
	if !strings.Contains(string(out), "FMULD") || !strings.Contains(string(out), "FMULS") {
		t.Error("no floating-point arithmetic found at all")
	}
	for _, line := range regexp.MustCompile(`(?m)^.*\bFN?M(ADD|SUB)[SD]\b.*$`).FindAllString(string(out), -1) {
		t.Error(strings.TrimSpace(line))
	}
}
