package command

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// fullDisk takes so many bytes and no more.
type fullDisk struct{ left int }

func (d *fullDisk) Write(text []byte) (int, error) {
	if len(text) <= d.left {
		d.left -= len(text)
		return len(text), nil
	}
	n := d.left
	d.left = 0
	return n, syscall.ENOSPC
}

// Whatever a command prints, it fails if it cannot print all of it, and says so once.
func TestOutputThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model)
	rows := testlib.File(t, "p.csv", sample)
	const machine, example = "../../../../configs/topo/dgx-h100.xml", "../../../../configs/policies/example_test.yaml"
	log := "../../../../bench/testdata/preamble.txt"
	job := filepath.Join(dir, "job.csv")
	tunefit(t, cli.ExitOK, "import", "../../../../bench/profile/testdata", "-o", job)
	commands := [][]string{
		{}, {"--version"}, {"show", "--help"}, {"help"}, {"completion", "bash"},
		{"check", rows}, {"check", rows, "--json"}, {"check", "--rules"}, {"check", "--explain", "shadowed"},
		{"compare", smallSweep, smallSweep}, {"compare", smallSweep, smallSweep, "--json"},
		{"doctor", "--json"}, {"doctor"},
		{"check", model, "--measured", smallSweep}, {"check", model, "--measured", smallSweep, "--json"},
		{"fit", smallSweep}, {"fit", smallSweep, "--json"}, {"gc", "--dry-run", "--rendezvous", dir},
		{"status", "--rendezvous", dir}, {"status", "--rendezvous", dir, "--json"},
		{"import", log}, {"learn", learnSamples + "/job2"}, {"learn", learnSamples + "/job2", "--json"},
		{"sweep", "--dry-run", "-o", dir, "--plugin", "lib.so", "--launch", "srun -N {nodes} {command}", "--from",
			smallSweep},
		{"profile", job}, {"profile", job, "--json"},
		{"push", rows, "--to", filepath.Join(dir, "to.csv"), "--rendezvous", dir},
		{"sweep", "--init"},
		{"topo", machine}, {"topo", machine, "--json"}, {"topo", machine, "--dump"},
		{"topo", "explain", "gpu0", "gpu1", "--topo", machine}, {"topo", "links", machine},
		{"topo", "links", machine, "--json"},
		{"topo", "graphs", machine}, {"topo", "tuning", machine},
		{"show", rows, "--sizes", "1M"}, {"show", rows, "--sizes", "1M", "--json"},
		{"check", "../../../../configs/policies/example.csv", "--tests", example},
		{"explain", "allreduce", "1M", "--comm", "2x8", "--policy", rows},
		{"explain", "allreduce", "1M", "--comm", "2x8", "--policy", rows, "--json"},
		{"diff", rows, rows, "--sizes", "1M"},
	}
	for _, args := range commands {
		var whole, errs bytes.Buffer
		code := runTest("", args, &whole, &errs)
		if code == cli.ExitUsage {
			t.Errorf("%q: %s", args, errs.String())
			continue
		}
		if whole.Len() == 0 {
			t.Logf("%q prints nothing", args)
		}
		for _, room := range []int{0, whole.Len() / 2} {
			errs.Reset()
			code := runTest("", args, &fullDisk{room}, &errs)
			if whole.Len() > 0 &&
				(code != cli.ExitFailed || strings.Count(errs.String(), "no space left on device") != 1) {
				t.Errorf("%q with room for %d of %d bytes: exit code %d, %s", args, room, whole.Len(), code,
					errs.String())
			}
		}
	}
	_, help, _ := runAlone("--help")
	for _, name := range subcommands(help) {
		if !slices.ContainsFunc(commands, func(c []string) bool { return len(c) > 0 && c[0] == name }) {
			t.Errorf("%s was not tried", name)
		}
	}
}

// The same of a process.
func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	defer full.Close()
	var errs bytes.Buffer
	code := runTest("", []string{"topo", "../../../../configs/topo/dgx-h100.xml"}, full, &errs)
	if code != cli.ExitFailed ||
		errs.String() != "tunefit: the output is not complete: write /dev/full: no space left on device\n" {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

// Whoever reads a pipe may leave early, as head does. The command still writes its files, and its exit code is its own.
func TestReaderLeavesEarly(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	model, rows := filepath.Join(dir, "model.json"), filepath.Join(dir, "policy.csv")
	for _, test := range []struct {
		args  []string
		code  int
		files []string
	}{
		{[]string{"fit", smallSweep, "-o", model, "--csv", rows}, cli.ExitOK, []string{model, rows}},
		{[]string{"check", testlib.File(t, "p.csv", "allreduce,0,inf,rign,ll,8,1,8\n")}, cli.ExitFailed, nil},
		{[]string{"status", "--watch", "--rendezvous", dir}, cli.ExitOK, nil},
	} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		reader.Close()
		var errs bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, self, test.args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), testkit.AsTunefit+"=1"), writer, &errs
		err = cmd.Run()
		writer.Close()
		if code := cmd.ProcessState.ExitCode(); code != test.code || strings.Contains(errs.String(), "broken pipe") {
			t.Errorf("%q: %v, want exit code %d\n%s", test.args, err, test.code, errs.String())
		}
		for _, file := range test.files {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%q: %v", test.args, err)
			}
		}
	}
}
