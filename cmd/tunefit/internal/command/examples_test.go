package command

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// exampleFiles are what the examples of the help texts name, and where to take it
// from; what one example writes, the next may read.
var exampleFiles = map[string]string{
	"configs":          "configs",
	"sweeps/first.csv": "policy/fit/testdata/small.csv",
	"sweeps/later.csv": "policy/fit/testdata/small.csv",
	"logs/ring.txt":    "bench/testdata/preamble.txt",
	"logs/run2.txt":    "bench/testdata/launcher_srun.txt",
	"ring.csv":         "bench/testdata/optimize.csv",
	"rows.csv":         "policy/fit/testdata/small.rows.csv",
	"before.log":       "bench/compare/testdata/before-1.log",
	"before-1.log":     "bench/compare/testdata/before-1.log",
	"before-2.log":     "bench/compare/testdata/before-2.log",
	"after.log":        "bench/compare/testdata/after-1.log",
	"after-1.log":      "bench/compare/testdata/after-1.log",
	"after-2.log":      "bench/compare/testdata/after-2.log",
	"old-nccl.csv":     "policy/fit/testdata/small.csv",
	"new-nccl.csv":     "policy/fit/testdata/small.csv",
	"record":           "docs/testdata/record",
	"learned":          "docs/testdata/learn",
	"system.xml":       "configs/topo/dgx-h100.xml",
	"recorded":         "docs/testdata/recorded",
	"job.log":          "cmd/tunefit/internal/command/testdata/job.log",
	"inspector-0.json": "bench/profile/testdata/inspector-node0-pid1000.json",
	"inspector-1.json": "bench/profile/testdata/inspector-node0-pid1001.json",
	"inspector-2.json": "bench/profile/testdata/inspector-node1-pid1000.json",
	"inspector-3.json": "bench/profile/testdata/inspector-node1-pid1001.json",
}

// Every example of the help texts works, in a folder with the files that it names.
func TestHelpExamples(t *testing.T) {
	t.Setenv(tuner.EnvRendezvous, t.TempDir()) // not where jobs on this machine meet
	env := testkit.Env
	commands := []*cobra.Command{
		importCommand(env), fitCommand(env), compareCommand(env),
		learnCommand(),
		statusCommand(), pushCommand(env), gcCommand(),
		showCommand(env), explainCommand(env), diffCommand(env), checkCommand(env),
		profileCommand(env),
	}
	dir := t.TempDir()
	for name, source := range exampleFiles {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(testlib.Root, source), file); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, cmd := range commands {
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.Name())
		}
		for line := range strings.Lines(cmd.Example) {
			runExample(t, cmd, strings.TrimSpace(line))
		}
	}
}

// runExample does what a shell does with a line of plain words, patterns and at
// most one file for the standard output.
func runExample(t *testing.T, cmd *cobra.Command, line string) {
	t.Helper()
	line, into, redirected := strings.Cut(line, " > ")
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "tunefit" || words[1] != cmd.Name() {
		t.Fatalf("%s is no example of %s", line, cmd.Name())
	}
	var args, writes []string
	for i, word := range words[1:] {
		switch files, err := filepath.Glob(word); {
		case err != nil:
			t.Fatal(err)
		case strings.Contains(word, "*"):
			args = append(args, files...)
		default:
			args = append(args, word)
		}
		if slices.Contains([]string{"-o", "--csv", "--report", "--to"}, words[i]) {
			writes = append(writes, word)
		}
	}
	var out, errs bytes.Buffer
	if code := runTest("", args, &out, &errs); code != cli.ExitOK &&
		!(cmd.Name() == "diff" && code == cli.ExitFailed || cmd.Name() == "compare" && code == cli.ExitFailed) {
		t.Errorf("%s: exit code %d: %s", line, code, errs.String())
	}
	if redirected {
		if err := os.WriteFile(into, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		writes = append(writes, into)
	}
	for _, file := range writes {
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			t.Errorf("%s: %s is empty or not there (%v)", line, file, err)
		}
	}
}
