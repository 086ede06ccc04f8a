package policytest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
)

// No file of tests is too strange to be refused in words.
func FuzzReadPolicyTests(f *testing.F) {
	text, err := os.ReadFile("../../../../configs/policies/example_test.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("policy: p.csv\ntests: &a [*a, {<<: *a, ? [x] : y, costs: {ring/ll: .nan}}]\n")
	f.Add("--- !!binary x\n...\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "x_test.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if tests, err := Read(testkit.Env, file, ask.Decider{Policy: "p.csv"}); err == nil && len(tests.cases) == 0 {
			t.Errorf("accepted without tests: %q", text)
		}
	})
}
