package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// What a person and a program see of commands, as golden files.
func TestSessions(t *testing.T) { testkit.Sessions(t, "testdata/sessions") }

// Each field that a command prints as JSON is in a session.
func TestEveryFieldOfJSON(t *testing.T) {
	sessions, err := filepath.Glob("testdata/sessions/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	printed := map[string]bool{}
	for _, name := range sessions {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^ *"(\w+)":`).FindAllSubmatch(text, -1) {
			printed[string(m[1])] = true
		}
	}
	// What no session has, and the test that has it.
	elsewhere := map[string]string{
		"check found unknown":    "doctor looks at this machine: TestDoctorCommand, TestFindingJSON",
		"last":                   "jobs that run: TestStatusAsked",
		"refused_files":          "jobs that run: TestStatusOfABadFile",
		"directory proof in_job": "sweeps: TestSweepJSON",
		"fit":                    "sweeps: TestSweepJSON",
		"in_starts other_side":   "measured in pairs: TestUnsteadyJSON of bench/compare",
		"note":                   "gc where nobody meets, or in an etcd: TestGCOfWhatHasEnded",
		"freeze":                 "a record only, never printed",
		"tunefit at of":          "a node's answer to doctor: TestAnswersMixed",
	}
	for names := range elsewhere {
		for name := range strings.FieldsSeq(names) {
			if printed[name] && name != "check" && name != "at" && name != "of" && name != "note" {
				t.Errorf("a session has the field %s, too", name)
			}
			printed[name] = true
		}
	}
	tag := regexp.MustCompile("json:\"(\\w+)[^`]*`")
	for _, of := range []string{"cmd/tunefit/internal/ask", "cmd/tunefit/internal/command",
		"cmd/tunefit/internal/doctor/doctor.go", "cmd/tunefit/internal/livejobs", "cmd/tunefit/internal/policytest",
		"bench/compare", "internal/agree/inspect.go", "internal/agree/record.go", "internal/identity", "policy/fit/worth.go",
		"policy/fit/pool.go", "policy/lint", "policy/fit/report/recommendation.go", "tuner/trial"} {
		path := filepath.Join(testlib.Root, of)
		files := []string{path}
		if !strings.HasSuffix(of, ".go") {
			if files, err = filepath.Glob(filepath.Join(path, "*.go")); err != nil {
				t.Fatal(err)
			}
		}
		files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		if len(files) == 0 {
			t.Errorf("%s has no source", of)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range tag.FindAllSubmatch(text, -1) {
				if name := string(m[1]); !printed[name] {
					t.Errorf("%s: no session has the field %s", file, name)
				}
			}
		}
	}
}
