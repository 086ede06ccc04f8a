package endtoend

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

var (
	starterCommand = regexp.MustCompile(`(?m)^# Made with: ((?:.*\|\n# )?.*)$`)
	starterHeldOut = regexp.MustCompile(`(?m)^#   \w+ \d+x\d+: policy .*$`)
)

// fitted is what the starter policies tell of the output of fit --json.
type fitted struct {
	Groups []struct {
		Coll nccl.Coll `json:"collective"`
		nccl.Comm
		Acts    int       `json:"sizes_changed"`
		Decided int       `json:"tried"`
		Harm    int       `json:"tried_slower"`
		Policy  fit.Score `json:"tried_vs_best"`
		Default fit.Score `json:"default_vs_best"`
	}
}

// remade runs the command that a starter policy names, in the project's folder, and returns what it writes and what
// fit says of it.
func remade(t *testing.T, name, head string) (policy string, found fitted) {
	t.Helper()
	made := starterCommand.FindStringSubmatch(head)
	into := " --csv configs/policies/" + name
	if made == nil || !strings.HasSuffix(made[1], into) {
		t.Fatalf("%s does not say how it was made (needed: # Made with: tunefit fit ...%s)", name, into)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("sh", "-c", `tunefit() { "$SELF" "$@"; }; `+strings.ReplaceAll(
		strings.TrimSuffix(made[1], into), "\n#", "")+` --json --csv "$OUT"`)
	cmd.Dir = testlib.Root
	cmd.Env = append(os.Environ(), testkit.AsTunefit+"=1", "SELF="+self, "OUT="+out)
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(said, &found)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", made[1], err, said)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), found
}

// The starter policies are what fit makes of the measurements in the repository, and say of themselves what fit found.
func TestStarterPolicies(t *testing.T) {
	overview, err := os.ReadFile("../../../../configs/policies/README.md")
	if err != nil {
		t.Fatal(err)
	}
	starters := 0
	files, _ := filepath.Glob("../../../../configs/policies/*.csv")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# Starter policy") {
			continue
		}
		starters++
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			const end = "\n#\n" // of what fit did not write
			at := strings.LastIndex(string(text), end)
			head, rows := string(text[:at]), string(text[at+len(end):])
			want, found := remade(t, name, head)
			if rows != want {
				t.Errorf("it has\n%s\nfit makes\n%s", rows, want)
			}
			for _, about := range []string{"Machine: ", "Origin: ", "Releases: ", "Held out ", "Not for: "} {
				if !strings.Contains(head, "\n# "+about) {
					t.Errorf("it does not say %q", about)
				}
			}
			var says []string
			for _, g := range found.Groups {
				if g.Acts == 0 { // left to NCCL
					continue
				}
				policy := fmt.Sprintf("%.3f, %.3f", g.Policy.Mean, g.Policy.Max)
				alone := fmt.Sprintf("%.3f, %.3f", g.Default.Mean, g.Default.Max)
				harm := fmt.Sprintf("%d of %d", g.Harm, g.Decided)
				library := "NCCL"
				if strings.Contains(head, "RCCL") {
					library = "RCCL"
				}
				key := g.Coll.String() + " " + g.Comm.String()
				says = append(says, fmt.Sprintf("#   %s: policy %s; %s %s; harm: %s decisions more than 1 %% slower than "+
					"%[3]s's", key, policy, library, alone, harm))
				row := regexp.MustCompile(`\| ` + key + `, [^|]* \| ` + policy + ` \| ` + alone + ` \| ` + harm + ` \|`)
				if !row.Match(overview) {
					t.Errorf("configs/policies/README.md has no row with %s", row)
				}
			}
			if got := starterHeldOut.FindAllString(head, -1); strings.Join(got, "\n") != strings.Join(says, "\n") {
				t.Errorf("it says\n%s\nfit found\n%s", strings.Join(got, "\n"), strings.Join(says, "\n"))
			}
			if checked, _ := tunefit(t, cli.ExitOK, "check", file); checked != "no problems found\n" {
				t.Errorf("check says\n%s", checked)
			}
			// NCCL's example tuner reads 255 bytes of a line, and what follows as another line.
			for line := range strings.Lines(string(text)) {
				if len(line) > 250 {
					t.Errorf("%d bytes: %s", len(line), line)
				}
			}
		})
	}
	if starters < 2 {
		t.Errorf("only %d starter policies", starters)
	}
}
