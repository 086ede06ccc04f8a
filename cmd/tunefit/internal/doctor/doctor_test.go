package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// testDoctor examines an environment on a machine of its own: nothing outside of the
// test's folders counts.
func testDoctor(t testing.TB, environ ...string) *doctor {
	t.Helper()
	d := &doctor{Options: Options{Library: testlib.Library, Nodes: 1, Limit: LimitOnNodes}, shm: t.TempDir(),
		proc: t.TempDir()}
	home := t.TempDir()
	d.env = localenv.ReadEnvironment(environ, home, filepath.Join(home, "etc.conf"))
	d.detect = func(func(string) string) (*topo.Machine, detect.Source, error) {
		return nil, detect.Source{}, &detect.NoGPUError{}
	}
	return d
}

// sound is an environment in which nothing is wrong.
func sound(t *testing.T) []string {
	return []string{"NCCL_DEBUG=WARN", tuner.EnvPlugin + "=" + testlib.Library,
		tuner.EnvConfigFile + "=" + testlib.File(t, "p.csv", "allreduce,0,inf,ring,simple,-1,-1,-1\n")}
}

// mustFind looks for one finding that says all of the words, in what was found or what
// to do.
func mustFind(t *testing.T, findings []Finding, check string, s severity, words ...string) {
	t.Helper()
	if !slices.ContainsFunc(findings, func(f Finding) bool {
		text := f.Found + " -> " + f.Do
		return f.Check == check && f.Severity == s && !slices.ContainsFunc(words, func(w string) bool {
			return !strings.Contains(text, w)
		})
	}) {
		var b bytes.Buffer
		Write(&b, findings)
		t.Errorf("no %s of %s says %q in\n%s", s, check, words, b.String())
	}
}

func only(check string) []examination {
	return slices.DeleteFunc(slices.Clone(examinations), func(e examination) bool { return e.name != check })
}

// In a sound environment there is one line for each thing, and notes only.
func TestDoctorSound(t *testing.T) {
	testlib.NeedPlugin(t)
	d := testDoctor(t, sound(t)...)
	findings := d.examine(t.Context(), examinations)
	if Failed(findings) {
		t.Error("it fails")
	}
	mustFind(t, findings, "plugin", isFine, testlib.Library, tuner.Release, fmt.Sprintf("ABI v2-v%d", nccl.NewestABI))
	mustFind(t, findings, "nccl", isNote, "--library FILE")
	mustFind(t, findings, "environment", isFine, "NCCL_DEBUG=WARN")
	mustFind(t, findings, "files", isFine, "1 row", "version ")
	mustFind(t, findings, "topology", isNote, "nothing here needs")
	mustFind(t, findings, "rendezvous", isFine, d.shm)
	if left, err := os.ReadDir(d.shm); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Whatever hangs, an answer comes, and the driver leaves time for the others.
func TestDoctorIsNotHeldUp(t *testing.T) {
	for _, file := range []struct {
		text string
		want severity
	}{
		{"collective,algorithm\nallreduce,ring\n", isNote},
		{"collective,algorithm,when\nallreduce,ring,topo.nvswitch\n", isWarning},
	} {
		policyCSV := testlib.File(t, "p.csv", file.text)
		synctest.Test(t, func(t *testing.T) {
			d := testDoctor(t, tuner.EnvConfigFile+"="+policyCSV)
			d.Limit = Limit
			d.detect = func(func(string) string) (*topo.Machine, detect.Source, error) {
				time.Sleep(time.Minute) // a driver that is not ready
				return nil, detect.Source{}, nil
			}
			stuck := examination{name: "stuck", run: func(*doctor, context.Context, *report) {
				time.Sleep(time.Hour) // a file system that hangs
			}}
			start := time.Now()
			findings := d.examine(context.Background(), append(only("topology"), only("files")[0], stuck))
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("%v", took)
			}
			mustFind(t, findings, "topology", file.want, "has not answered")
			mustFind(t, findings, "files", isFine, "version ")
			mustFind(t, findings, "stuck", isWarning, "took longer")
			time.Sleep(2 * time.Hour) // let them end
		})
	}
}

// A library that hangs while it is loaded is not called one that cannot be loaded.
func TestDoctorHangingLibrary(t *testing.T) {
	hangs := gcc(t, filepath.Join(t.TempDir(), "libhangs.so"),
		"#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) pause(); }")
	d := testDoctor(t, tuner.EnvPlugin+"="+hangs)
	d.NCCL, d.Limit = hangs, 100*time.Millisecond
	for _, check := range []string{"plugin", "nccl"} {
		findings := d.examine(t.Context(), only(check))
		mustFind(t, findings, check, isWarning, "not known: it took longer than 100ms", "a file system that hangs")
		if len(findings) != 1 || !findings[0].Unknown {
			t.Errorf("%+v", findings)
		}
	}
}

// gcc builds a library for a test.
func gcc(t *testing.T, file, source string, flags ...string) string {
	t.Helper()
	testlib.NeedPlugin(t)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	cc := exec.Command("gcc", append([]string{"-I", testlib.Root, "-shared", "-fPIC", "-x", "c", "-o", file, "-", "-x",
		"none"}, flags...)...)
	cc.Stdin = strings.NewReader(source)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// A machine that is known is named; it is missed only where something needs it.
func TestDoctorTopology(t *testing.T) {
	known := func(func(string) string) (*topo.Machine, detect.Source, error) {
		return policyfile.FindMachine(func(name string) string {
			if name == detect.TunerFileVariable {
				return filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml")
			}
			return ""
		})
	}
	conditions := tuner.EnvConfigFile + "=" +
		testlib.File(t, "p.csv", "collective,algorithm,when\nallreduce,ring,topo.nvswitch\n")
	d := testDoctor(t, conditions)
	mustFind(t, d.examine(t.Context(), only("topology")), "topology", isWarning, "never match")
	without := d.examine(t.Context(), only("files"))
	d.detect = known
	mustFind(t, d.examine(t.Context(), only("topology")), "topology", isFine, "8 GPUs", "fingerprint ")
	with := d.examine(t.Context(), only("files"))
	if without[0].Found == with[0].Found {
		t.Errorf("the version does not tell what the machine is: %s", with[0].Found)
	}
	d.detect = func(func(string) string) (*topo.Machine, detect.Source, error) {
		return nil, detect.Source{}, &detect.NoGPUError{OnPCI: 8, Cause: os.ErrPermission}
	}
	d.env = localenv.ReadEnvironment(nil, "", "")
	mustFind(t, d.examine(t.Context(), only("topology")), "topology", isWarning, "8 NVIDIA GPUs", "permission denied")
}

// A topology that NCCL takes without a word, and that is wrong, is warned of.
func TestDoctorDoubtsTheTopology(t *testing.T) {
	d := testDoctor(t)
	d.detect = func(func(string) string) (*topo.Machine, detect.Source, error) {
		return &topo.Machine{}, detect.Source{File: "d.xml", Hosts: 18, FewerNVLinks: []string{"GPU 1 has 0 NVLinks"}}, nil
	}
	found := d.examine(t.Context(), only("topology"))
	mustFind(t, found, "topology", isWarning, "d.xml describes 18 hosts")
	mustFind(t, found, "topology", isWarning, "GPU 1 has 0 NVLinks")
}

// A node that has neither a GPU nor NCCL is not sound to measure on. A job's login node may be without.
func TestMachineWithoutGPU(t *testing.T) {
	for machine, want := range map[bool]severity{true: isWarning, false: isNote} {
		d := testDoctor(t, sound(t)...)
		d.Machine = machine
		found := d.examine(t.Context(), only("topology"))
		mustFind(t, found, "topology", want, "no NVIDIA GPU on this node")
		if _, err := d.env.Probe(t.Context(), localenv.LibNCCL); err == nil {
			continue // this machine has one
		}
		found = d.examine(t.Context(), only("nccl"))
		mustFind(t, found, "nccl", want, "no libnccl.so.2 or librccl.so.1", "--library FILE")
	}
}
