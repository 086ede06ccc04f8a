//go:build cgo

package docs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

func TestMain(m *testing.M) {
	testlib.CleanEnvironment()
	code := m.Run()
	os.RemoveAll(projectDir)
	os.Exit(code)
}

// The commands of a document work: each block marked sh is one script, run in a copy of the
// project's folder. So are `make help`, and what the figures below are from.
// `make test` runs this test and is not run by it.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	home := t.TempDir()
	shell(t, home, "make -s all")
	all := pages(t)
	for _, page := range slices.Sorted(maps.Keys(all)) {
		text := all[page]
		if page == "README.md" {
			text += "\n```sh\nmake help\n```\n"
		}
		for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
			script := regexp.MustCompile(`(?m)^make test\b.*$`).ReplaceAllString(block[1], "")
			t.Run(page, func(t *testing.T) { shell(t, home, script) })
		}
	}
	if _, err := os.Stat(filepath.Join(home, ".local/lib/libnccl-tuner-go.so")); err != nil {
		t.Errorf("make install: %v", err)
	}
	t.Run("figures", testFigures)
	t.Run("gpu", testGPU)
	t.Run("flags", testFlags)
	t.Run("rules", testRules)
}

// project is a copy of the project's folder: the pages' commands write into its folder build, where a person who tries
// them has files of the same names. What the Makefile has built for the tests is taken from there.
var project = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "nccl-tuner-go-docs-")
	if err != nil {
		return err
	}
	projectDir = dir
	out, err := exec.Command("sh", "-euc", `
		tar -C "$1" --exclude=./build --exclude=./.git -cf - . | tar -C "$2" -xf -
		mkdir "$2/build"
		for file in libnccl-tuner-go.so tunefit rank overlay.json sigtab.txt; do
			[ ! -e "${TEST_BUILD:-/nowhere}/$file" ] || cp -p "$TEST_BUILD/$file" "$2/build"
		done`, "sh", root, dir).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("copy of the project: %v: %s", err, out)
	}
	return err
})

var projectDir string

// shell runs a script in the copy of the project, with a home of its own, and returns what it prints.
func shell(t *testing.T, home, script string) string {
	t.Helper()
	if err := project(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-euc", script)
	cmd.Dir = projectDir
	meet := filepath.Join(home, "rendezvous") // not where jobs of tests beside this one do
	if err := os.MkdirAll(meet, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "HOME="+home, "NCCL_TUNER_RENDEZVOUS="+meet)
	for _, name := range []string{"GOPATH", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// The gain that README.md, docs/SWEEP.md and docs/dev/MODEL.md promise is what fit prints.
func testFigures(t *testing.T) {
	all := pages(t)
	out := shell(t, t.TempDir(), "build/tunefit fit docs/measured/mi355x-allreduce.csv 2>/dev/null")
	if verdict, _, _ := strings.Cut(out, "\n"); !strings.Contains(all["docs/SWEEP.md"], "\n    "+verdict+"\n") {
		t.Errorf("docs/SWEEP.md does not say %q", verdict)
	}
	for grid, machines := range map[string]map[int]string{
		"mi355x-allreduce": {8: "8 AMD MI355X, RCCL", 16: "2 x 8 AMD MI355X, RCCL"},
		"a6000-allreduce":  {2: "2 NVIDIA RTX A6000, NCCL", 4: "4 NVIDIA RTX A6000, NCCL"},
		"gb300-allreduce":  {8: "8 NVIDIA GB300 of an NVL72, NCCL"},
	} {
		var found struct {
			Groups []struct {
				Ranks   int
				Policy  struct{ Mean, P95, Max float64 } `json:"tried_vs_best"`
				Default struct{ Mean float64 }           `json:"default_vs_best"`
			}
		}
		out := shell(t, t.TempDir(), "build/tunefit fit docs/measured/"+grid+".csv --json 2>/dev/null")
		if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Groups) < len(machines) {
			t.Fatalf("fit prints something else than expected (%v):\n%s", err, out)
		}
		for _, g := range found.Groups {
			machine, shown := machines[g.Ranks]
			if !shown {
				continue
			}
			text := func(v float64) string { return fmt.Sprintf("%.3f", v) }
			policy, p95, most, alone := text(g.Policy.Mean), text(g.Policy.P95), text(g.Policy.Max), text(g.Default.Mean)
			row := "| " + machine + " | "
			if want := row + alone + " | " + policy + " |"; !strings.Contains(all["README.md"], want) {
				t.Errorf("README.md does not say %q", want)
			}
			if want := row + alone + " | " + policy + " | " + p95 + " | " + most + " |"; !strings.Contains(
				all["docs/dev/MODEL.md"], want) {
				t.Errorf("docs/dev/MODEL.md does not say %q", want)
			}
		}
	}
	home := t.TempDir()
	shell(t, home, "build/tunefit fit docs/measured/a6000-allreduce.csv -o $HOME/model.json --csv $HOME/learned.csv")
	shown := shell(t, home,
		"build/tunefit show $HOME/learned.csv --model $HOME/model.json --coll allreduce --comm 1x4")
	shown = strings.ReplaceAll(shown, home+"/", "")
	for _, line := range regexp.MustCompile(`(?m)^    ((?:collective|allreduce) +(?:comm|1x4) .*)$`).
		FindAllStringSubmatch(all["README.md"], -1) {
		if !strings.Contains(shown, line[1]+"\n") {
			t.Errorf("show does not print %q:\n%s", line[1], shown)
		}
	}
}

// The commands on the pages of what ran on a GPU print what they show of them.
func testGPU(t *testing.T) {
	all := pages(t)
	for _, page := range []string{gpuPage(h100), gpuPage(h200)} {
		var printed strings.Builder
		for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(all[page], -1) {
			printed.WriteString(shell(t, t.TempDir(), block[1]))
		}
		shown := regexp.MustCompile(`(?m)^    (.*)$`).FindAllStringSubmatch(all[page], -1)
		if len(shown) < 5 {
			t.Errorf("%s shows %d lines", page, len(shown))
		}
		for _, line := range shown {
			if !strings.Contains(printed.String(), line[1]) {
				t.Errorf("no command of %s prints %q:\n%s", page, line[1], printed.String())
			}
		}
		effect := regexp.MustCompile(` +ring/simple +(\S+ %) +(\(.*?\))`).FindStringSubmatch(printed.String())
		if effect == nil {
			t.Fatalf("no effect of ring/simple in\n%s", printed.String())
		}
		quoted(t, effect[1]+" "+effect[2], "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md")
	}
}

// Every flag, command and make target that a document names exists.
func testFlags(t *testing.T) {
	help := shell(t, t.TempDir(), `
		commands() { sed -n 's/^  \([a-z]*\)  *[A-Z].*/\1/p' | grep -v -e help -e completion; }
		build/tunefit --help
		for c in $(build/tunefit --help | commands); do
			echo "tunefit $c"; build/tunefit $c --help
			for s in $(build/tunefit $c --help | commands); do echo "tunefit $c $s"; build/tunefit $c $s --help; done
		done`)
	help += "--exclusive --gpus-per-node --wrap --mpi --cpu-bind --overlap --jobid \n" // of Slurm
	targets := shell(t, t.TempDir(), "make help")
	for page, text := range pages(t) {
		if page == "CHANGELOG.md" { // what was removed is there no more
			text = regexp.MustCompile(`(?ms)^### (?:Removed|Upgrading[^\n]*)$.*?(^##|\z)`).ReplaceAllString(text, "$1")
		}
		for _, code := range regexp.MustCompile("(?m)`[^`\n]+`|^    .*$|^build/.*$").FindAllString(text, -1) {
			for _, flag := range regexp.MustCompile(`(?:^|[ \x60])(--[a-z][a-z-]+)`).FindAllStringSubmatch(code, -1) {
				if !strings.Contains(help, flag[1]+" ") && !strings.Contains(help, flag[1]+"\n") {
					t.Errorf("%s: %s: no command has %s", page, code, flag[1])
				}
			}
			for _, command := range regexp.MustCompile(`\btunefit ([a-z]+)`).FindAllStringSubmatch(code, -1) {
				if !strings.Contains(help, "tunefit "+command[1]+"\n") {
					t.Errorf("%s: %s: there is no such command", page, code)
				}
			}
			if target := regexp.MustCompile("^`make ([a-z]+)").FindStringSubmatch(code); target != nil &&
				!strings.Contains(targets, "make "+target[1]+" ") {
				t.Errorf("%s: %s: there is no such target", page, code)
			}
		}
	}
}

// docs/COMMANDS.md names every rule of check, and no other.
func testRules(t *testing.T) {
	var rules []string
	for line := range strings.Lines(shell(t, t.TempDir(), "build/tunefit check --rules")) {
		rules = append(rules, strings.Fields(line)[0])
	}
	rules = rules[1:] // the head
	var named []string
	list := regexp.MustCompile(`(?s)\* the file: .*?\n\n`).FindString(pages(t)["docs/COMMANDS.md"])
	for _, name := range regexp.MustCompile("`([a-z0-9]+-[a-z0-9-]+|[a-z]{3,})`").FindAllStringSubmatch(list, -1) {
		named = append(named, name[1])
	}
	slices.Sort(rules)
	slices.Sort(named)
	if !slices.Equal(rules, named) {
		t.Errorf("docs/COMMANDS.md has the rules\n%q\ncheck has\n%q", named, rules)
	}
}
