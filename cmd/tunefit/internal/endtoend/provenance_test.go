package endtoend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// onGPU gives each row of a sweep the columns of a setup.
func onGPU(t *testing.T, gpu, nccl string) string {
	t.Helper()
	text, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if i == 0 {
			fmt.Fprintf(&b, "%s,gpu_model,hosts,nccl_version,driver_version,measured_at,tuner\n", line)
		} else {
			fmt.Fprintf(&b, "%s,%s,node1 node2,%s,CUDA 13.1,2026-01-02 03:04:05,\n", line, gpu, nccl)
		}
	}
	return testlib.File(t, strings.ReplaceAll(gpu, " ", "-")+".csv", b.String())
}

func provenance(t *testing.T, name string) model.Provenance {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var file model.File
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if _, err := model.Read(name, text); err != nil {
		t.Errorf("the library refuses the model: %v", err)
	}
	return file.Provenance
}

// One model of two machines would be right on neither: somebody has to ask for it, and
// it says so.
func TestFitDoesNotMixMachines(t *testing.T) {
	a, b := onGPU(t, "NVIDIA H100", "2.29.2"), onGPU(t, "NVIDIA A100", "2.27.5")
	model := filepath.Join(t.TempDir(), "model.json")
	_, said := tunefit(t, cli.ExitFailed, "fit", a, b, "-o", model, "--force")
	for _, want := range []string{"different machines", "NVIDIA H100, on node1 node2, NCCL 2.29.2",
		"NVIDIA A100", "--mix"} {
		if !strings.Contains(said, want) {
			t.Errorf("says %q, want %q", said, want)
		}
	}
	if _, err := os.Stat(model); err == nil {
		t.Fatal("a model was written")
	}
	tunefit(t, cli.ExitOK, "fit", a, b, "-o", model, "--mix")
	if p := provenance(t, model); !p.Mixed || len(p.Machines) != 2 || p.NCCL != "2.27.5, 2.29.2" {
		t.Errorf("mixed: %+v", p)
	}
	tunefit(t, cli.ExitOK, "fit", a, "-o", model, "--force")
	if p := provenance(t, model); p.Mixed || len(p.Machines) != 1 || p.Machines[0].GPU != "NVIDIA H100" ||
		p.Machines[0].Begun != "2026-01-02 03:04:05" || p.NCCL != "2.29.2" {
		t.Errorf("not mixed: %+v", p)
	}
	// What does not say what it is of, as sweeps of old, stands with anything.
	tunefit(t, cli.ExitOK, "fit", a, smallSweep, "-o", model, "--force")
}

// The same measurements twice are no repetitions.
func TestSameFileIsReadOnce(t *testing.T) {
	text, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	again, packed := testlib.File(t, "again.csv", string(text)), testlib.File(t, "packed.csv.gz",
		testlib.Zipped(t, string(text)))
	dir := t.TempDir()
	once, thrice := filepath.Join(dir, "once.json"), filepath.Join(dir, "thrice.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", once)
	_, said := tunefit(t, cli.ExitOK, "fit", smallSweep, again, packed, "-o", thrice)
	if strings.Count(said, "the same as "+smallSweep+": read once") != 2 {
		t.Errorf("says %s", said)
	}
	if a, b := provenance(t, once), provenance(t, thrice); len(b.Files) != 1 || a.Files[0] != b.Files[0] {
		t.Errorf("%+v, want %+v", b, a)
	}
	out, said := tunefit(t, cli.ExitOK, "import", smallSweep, again)
	if strings.Count(out, "\n") != strings.Count(string(text), "\n") || !strings.Contains(said, "read once") {
		t.Errorf("%d lines of %d imported: %s", strings.Count(out, "\n"), strings.Count(string(text), "\n"), said)
	}
}

// A field that many rows have wrong is one error, with what was meant, and nothing is
// written of the rest unasked.
func TestMalformedRowsAreRefused(t *testing.T) {
	text, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(text), "\n")
	for i := range rows {
		if i%3 == 1 {
			rows[i] = strings.Replace(rows[i], ",ring,", ",rnig,", 1)
		}
	}
	bad := testlib.File(t, "bad.csv", strings.Join(rows, "\n"))
	dir := t.TempDir()
	model, csv := filepath.Join(dir, "m.json"), filepath.Join(dir, "p.csv")
	for _, args := range [][]string{{"fit", bad, "-o", model, "--csv", csv}, {"import", bad, "-o", csv}} {
		_, said := tunefit(t, cli.ExitFailed, args...)
		if strings.Count(said, "unknown algorithm") != 1 || !strings.Contains(said, `did you mean "ring"`) ||
			!strings.Contains(said, fmt.Sprintf(" of %d rows", len(rows)-2)) || !strings.Contains(said, "--force") {
			t.Errorf("tunefit %q says %s", args, said)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("tunefit %q wrote %v", args, left)
		}
	}
	tunefit(t, cli.ExitOK, "fit", bad, "-o", model, "--force")
	// One row of a hundred is a slip, and said.
	slip := testlib.File(t, "slip.csv", strings.Replace(string(text), ",ring,", ",rnig,", 1))
	if _, said := tunefit(t, cli.ExitOK, "fit", slip, "-o", model, "--force"); !strings.Contains(said, `unknown algorithm "rnig"`) {
		t.Errorf("says %s", said)
	}
}
