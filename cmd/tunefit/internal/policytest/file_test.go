package policytest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
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

func BenchmarkWorstReadPolicyTests(b *testing.B) {
	const head = "policy: p.csv\ntests:\n"
	file := filepath.Join(b.TempDir(), "x_test.yaml")
	hostile.Benchmark(b, func(text []byte) error {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			b.Fatal(err)
		}
		_, err := Read(testkit.Env, file, ask.Decider{Policy: "p.csv"})
		return err
	},
		hostile.Text{Unit: "a:\n"}, hostile.Text{Unit: "a: |\n x\n"}, hostile.Text{Unit: "? "}, hostile.Text{Unit: "&a "},
		hostile.Text{Unit: "*a "}, hostile.Text{Unit: "!!x "}, hostile.Text{Unit: "- - "}, hostile.Text{Unit: "[a,"},
		hostile.Text{Head: "a: &a [x]\nb: [", Unit: "*a,", Tail: "]"},
		hostile.Text{Head: head + "- name: x\n  costs: {", Unit: "ring/ll: 1, ", Tail: "}"},
		hostile.Text{Head: head + "- name: x\n  costs: {", Unit: "x%d: 1, ", Tail: "}"},
		hostile.Text{Head: head, Unit: "- name: x\n"}, hostile.Text{Head: head, Unit: "- {a%d: 1}\n"},
		hostile.Text{Head: head + "- ", Unit: "x", Tail: ": 1"}, hostile.Text{Head: head + "- collective: ", Unit: "x"},
		hostile.Text{Head: head + "- size: ", Unit: "1K,"},
	)
}
