package policy

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Where a machine can round a product and a sum at once, the compiler must not use
// that, or decisions would differ between machines.
func TestNoFusedArithmetic(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	cmd := exec.Command("go", "build", "-gcflags=-S", ".")
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "FMULD") {
		t.Fatal("no floating-point arithmetic found at all")
	}
	for _, line := range regexp.MustCompile(`(?m)^.*\bFN?M(ADD|SUB)[SD]\b.*$`).FindAllString(string(out), -1) {
		t.Error(line)
	}
}
