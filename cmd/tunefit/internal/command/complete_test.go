package command

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// completed is what a shell is told after a tab.
func completed(t *testing.T, line ...string) []string {
	t.Helper()
	var out strings.Builder
	if code := Run(newEnv(nil), append([]string{cobra.ShellCompNoDescRequestCmd}, line...), &out,
		io.Discard); code != cli.ExitOK {
		t.Errorf("%q: exit code %d", line, code)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	return lines[:len(lines)-1] // the last tells the shell what to do with them
}

// A tab completes values that there are: names, and the communicators of the files on the line.
func TestCompletion(t *testing.T) {
	t.Setenv("NCCL_TUNER_CONFIG_FILE", "")
	policy := testlib.File(t, "p.csv", "collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks\n"+
		"allreduce,0,1K,ring,ll,2,4,32\nallreduce,2K,4K,ring,ll,2,1,8\n")
	dir := t.TempDir()
	tunefit(t, cli.ExitOK, "import", smallSweep, "-o", filepath.Join(dir, "sweep.csv"))
	model := filepath.Join(dir, "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model)
	for line, want := range map[string]string{
		"show --coll ":                            "broadcast reduce allgather reducescatter allreduce",
		"show --coll allg":                        "allgather",
		"show --coll allreduce,reduce":            "allreduce,reduce allreduce,reducescatter",
		"show --coll reduce,reduce":               "reduce,reducescatter",
		"sweep --coll a":                          "allgather allreduce",
		"import --coll a":                         "allgather allreduce",
		"import --algo nv":                        "nvls nvls_tree",
		"sweep --protos ll,ll":                    "ll,ll128",
		"sweep --launch ":                         "local mpirun slurm",
		"sweep --launch=m":                        "mpirun",
		"explain ":                                "broadcast reduce allgather reducescatter allreduce",
		"explain allreduce ":                      "",
		"check --explain shad":                    "shadowed",
		"show " + policy + " --comm ":             "1x8 4x8",
		"show " + policy + " --comm 4x8,":         "4x8,1x8",
		"show missing.csv --comm ":                "",
		"show --model " + model + " --comm ":      "2x8",
		"diff " + policy + " --comm 4":            "4x8",
		"explain --policy " + policy + " --comm ": "1x8 4x8",
		"sweep -o " + dir + " --comm ":            "2x8",
		"sweep -o missing --comm ":                "",
		"sweep --from " + dir + " --comm ":        "2x8",
	} {
		if got := completed(t, strings.Split(line, " ")...); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
