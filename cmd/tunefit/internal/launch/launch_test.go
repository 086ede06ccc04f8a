package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

func TestMain(m *testing.M) {
	testlib.CleanEnvironment()
	os.Exit(m.Run())
}

// launched runs a program through a launcher, and returns its output.
func launched(t *testing.T, l *Launcher, p Program) (out string, err error) {
	t.Helper()
	argv, err := l.Command(p)
	if err != nil {
		t.Fatal(err)
	}
	b, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	return string(b), err
}

// mustEnd starts four ranks, ends their launcher, and looks for what is left.
func mustEnd(t *testing.T, l *Launcher, rank string) {
	t.Helper()
	dir := t.TempDir()
	argv,
		err := l.Command(
		Program{Argv: []string{"sh", "-c", `echo $$ > "$0/$` + rank + `.tmp"; mv "$0/$` + rank + `.tmp" "$0/$` + rank +
			`"; exec sleep 3600`, dir}, Nodes: 2, RanksPerNode: 2})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "4 ranks", func() bool { ranks, _ := filepath.Glob(dir + "/?"); return len(ranks) == 4 })
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well")
	}
	files, _ := filepath.Glob(dir + "/?")
	for _, f := range files {
		id, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the end of rank "+f, func() bool {
			// empty of what has ended and is not buried yet
			cmdline, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(id)) + "/cmdline")
			return !strings.Contains(string(cmdline), "sleep")
		})
	}
}

// await polls until something is so. The limit is for what never comes.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for start := time.Now(); !is(); time.Sleep(10 * time.Millisecond) { // another process does it
		if time.Since(start) > 15*time.Minute {
			t.Errorf("waited 15 minutes for %s: this test needs the machine's attention", what)
			return
		}
	}
}

func mustNew(t *testing.T, o Options) *Launcher {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mustCommand returns a command as a shell would read it.
func mustCommand(t *testing.T, l *Launcher, p Program) string {
	t.Helper()
	argv, err := l.Command(p)
	if err != nil {
		t.Fatal(err)
	}
	return cli.ShellWords(argv)
}

// programs puts files that do nothing but say what they are into a folder, which is the PATH.
func programs(t *testing.T, says map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range says {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+text+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

// awkward is an environment that a launcher which reads values in a way of its own would change.
var awkward = map[string]string{
	"TUNEFIT_TEST_PLAIN":  "ring",
	"TUNEFIT_TEST_COMMAS": "^mlx5_0,mlx5_1",
	"TUNEFIT_TEST_QUOTES": `a 'b' "c" $HOME \ ` + "`d`;e",
	"TUNEFIT_TEST_EMPTY":  "",
	"TUNEFIT_TEST_LINES":  "a\nb",
}

// printsAwkward prints awkward, a line a rank, which is in order in one of variables.
const printsAwkward = `printf '<%s|%s|%s|%s|%s>\n' "$TUNEFIT_TEST_PLAIN" "$TUNEFIT_TEST_COMMAS" "$TUNEFIT_TEST_QUOTES" "${TUNEFIT_TEST_EMPTY-unset}" "$(printf %s "$TUNEFIT_TEST_LINES" | tr '\n' /)"`

// awkwardLine is what printsAwkward prints.
var awkwardLine = `<ring|^mlx5_0,mlx5_1|` + awkward["TUNEFIT_TEST_QUOTES"] + `||a/b>`

// An environment and an exit code come through, in a container as well.
func TestLocal(t *testing.T) {
	dir := t.TempDir()
	container := filepath.Join(dir, "container")
	if err := os.WriteFile(container, []byte("#!/bin/sh\necho in \"$1\"; shift\nexec env -i PATH=\"$PATH\" \"$@\"\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	l := mustNew(t, Options{With: Local, Prefix: []string{container, "image.sif"}})
	out, err := launched(t, l, Program{Argv: []string{"sh", "-c", printsAwkward + "; exit 3"}, Env: awkward, Nodes: 1,
		RanksPerNode: 1})
	if want := "in image.sif\n" + awkwardLine + "\n"; out != want || l.ExitCode(err, nil) != 3 {
		t.Errorf("%q, %v; want %q and 3", out, err, want)
	}
	if each := l.PerProcess(8); each != 8 {
		t.Errorf("a process has %d GPUs", each)
	}
}

// Whoever calls a launcher by another name, or leaves something out, is told what there is.
func TestRefused(t *testing.T) {
	programs(t, map[string]string{"mpirun": "mpirun (Open MPI) 5.0.3", "mpirun.mpich": "HYDRA build details:"})
	intel := filepath.Join(os.Getenv("PATH"), "intel")
	old := filepath.Join(os.Getenv("PATH"), "old")
	for dir, says := range map[string]string{intel: "Intel(R) MPI Library for Linux* OS, Version 2021.11",
		old: "mpirun (Open MPI) 3.1.6"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "mpirun"), []byte("#!/bin/sh\necho '"+says+"'\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		o    Options
		says []string
	}{
		{Options{}, []string{`unknown launcher ""`, "local, mpirun", "{command}"}},
		{Options{With: "pdsh"}, []string{`unknown launcher "pdsh"`, "{command}"}},
		{Options{With: "srun"}, []string{"name it slurm"}},
		{Options{With: "slurm"}, []string{"no srun here", "needed for launcher slurm"}},
		{Options{With: intel + "/mpirun"}, []string{"Intel", "not Open MPI", "-n {ranks}"}},
		{Options{With: old + "/mpirun"}, []string{"Open MPI 3", "4 or newer"}},
		{Options{With: "/absent/mpirun"}, []string{"there is no /absent/mpirun"}},
		{Options{With: Local, Args: []string{"-p", "gpu"}}, []string{"no extra arguments"}},
		{Options{With: Local, Hosts: []string{"node1"}}, []string{"takes no hosts"}},
		{Options{With: Local, Prefix: []string{"apptainer", "exec"}}, []string{"no apptainer here"}},
		{Options{With: Slurm, Hosts: []string{"node1"}}, []string{"-w node"}},
		{Options{With: MPIRun, Hosts: []string{"node1:8"}}, []string{`"node1:8" is no host`}},
		{Options{With: MPIRun, Hosts: []string{"node1", "node1"}}, []string{"twice"}},
		{Options{With: "mpirun {comand}"},
			[]string{"{comand}", "{command}, {env}, {hosts}, {nodes}, {ranks}, {ranks_per_node}"}},
		{Options{With: "mpirun -np {ranks}"}, []string{"no {command}"}},
		{Options{With: "ssh node7 {command}"}, []string{"{ranks_per_node}"}},
		{Options{With: "pdsh -w {hosts} {command}"}, []string{"no hosts for {hosts}"}},
		{Options{With: "pdsh -w {hosts} '{command}", Hosts: []string{"node1"}}, []string{"quote is not closed"}},
	} {
		_, err := New(c.o)
		for _, words := range c.says {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%+v: %v, want %q", c.o, err, words)
			}
		}
	}
	programs(t, map[string]string{"mpirun": "mpirun (Open MPI) 5.0.3", "srun": ""})
	for _, arg := range []string{"-N4", "-N", "--nodes=4", "-n", "--ntasks=8", "--ntasks-per-node=8"} {
		if _, err := New(Options{With: Slurm, Args: []string{"--mpi=pmix", arg}}); err == nil ||
			!strings.Contains(err.Error(), "argument "+arg) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	if l := mustNew(t, Options{With: MPIRun}); l.mpirun == "" {
		t.Error("Open MPI 5 is not found")
	}
}

// More nodes than the launcher has are refused.
func TestTooManyNodes(t *testing.T) {
	for says, o := range map[string]Options{
		"there are 2 hosts":         {With: "x {hosts} {command}", Hosts: []string{"node1", "node2"}},
		"mpirun, slurm, a template": {With: Local},
	} {
		if argv, err := mustNew(t, o).Command(Program{Argv: []string{"p"}, Nodes: 3, RanksPerNode: 1}); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %q, %v, want %q", o, argv, err, says)
		}
	}
}
