package sweep

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
)

// What is missing is told once for all nodes that lack it, with what to do once for all of a kind.
func TestPreflightFinds(t *testing.T) {
	for _, test := range []struct {
		printed string
		nodes   []string // that answered
		problem string
	}{
		{"", nil, ""},
		{"Warning: added host\ntunefit-preflight: b done\ntunefit-preflight: a done \r\ntunefit-preflight: b done\n",
			[]string{"a", "b"}, ""},
		{"0: tunefit-preflight: b folder /data/sweep\n0: tunefit-preflight: b done\n1: tunefit-preflight: a done\n",
			[]string{"a", "b"},
			"on b the sweep's folder /data/sweep is not the one that tunefit writes to " +
				"(-o has to name a folder that all nodes see); " +
				"on a nothing is missing (--hosts, or -x of salloc and sbatch, leave nodes out)"},
		{"tunefit-preflight: a library /opt/libx.so\n", nil,
			"on a there is no tuner library /opt/libx.so (--plugin names it, in a folder that all nodes see)"},
		{"tunefit-preflight: a loads /opt/libx.so: wrong ELF class\n", nil,
			"on a the tuner library cannot be loaded: /opt/libx.so: wrong ELF class (--plugin names one that is " +
				"built for these nodes)"},
		{"tunefit-preflight: b program y_perf\ntunefit-preflight: c needs z_perf: libmpi.so => not found\n" +
			"tunefit-preflight: b program x_perf\n" +
			"tunefit-preflight: a program y_perf\ntunefit-preflight: b program y_perf\n", nil,
			"on c a library is missing: z_perf: libmpi.so => not found " +
				"(LD_LIBRARY_PATH has to name its folder on each node, or the programs are built anew); " +
				"on a, b there is no program y_perf; on b there is no program x_perf " +
				"(--perf-dir names the folder of nccl-tests' programs, as all nodes see it)"},
		{"tunefit-preflight: a something else\n", nil, ""},
		// Each rank may see all GPUs of its node or one of its own, and a line may be lost.
		{"tunefit-preflight: a done [all]GPU-1 GPU-2\ntunefit-preflight: b done [0]GPU-3 GPU-4 \n" +
			"tunefit-preflight: b done [1]GPU-3 GPU-4\ntunefit-preflight: c done\n", []string{"a", "b", "c"}, ""},
		{"tunefit-preflight: a done [all]\ntunefit-preflight: b done [all]GPU-1\ntunefit-preflight: b done [all]GPU-1\n" +
			"tunefit-preflight: c done []GPU-1 GPU-2\n", []string{"a", "b", "c"},
			"on a, c ranks see 0 GPUs of the 2 that they need; on b ranks see 1 GPU of the 2 that they need " +
				"(under Slurm salloc or sbatch has to ask for them: --gpus-per-node=2; CUDA_VISIBLE_DEVICES or a " +
				"container may hide some, and --comm says how many ranks a node has)"},
	} {
		nodes, problems, _ := readPreflight(test.printed, 2)
		if got := strings.Join(problems, "; "); got != test.problem || !slices.Equal(nodes, test.nodes) {
			t.Errorf("%q:\ngot  %q on %q\nwant %q on %q", test.printed, got, nodes, test.problem, test.nodes)
		}
	}
}

// CUDA shows what its variable names, up to the first that is not there.
func TestVisible(t *testing.T) {
	for variable, want := range map[string]string{
		"all": "GPU-a1 GPU-b2 MIG-c3", "": "", "1": "GPU-b2", "2,0": "MIG-c3 GPU-a1", "0, 1": "GPU-a1 GPU-b2",
		"GPU-b": "GPU-b2", "GPU-a1,MIG-c3": "GPU-a1 MIG-c3", "0,3,1": "GPU-a1", "-1": "", "0,,1": "GPU-a1", "NoDevFiles": "",
	} {
		if got := strings.Join(visibleGPUs(variable, []string{"GPU-a1", "GPU-b2", "MIG-c3"}), " "); got != want {
			t.Errorf("%q shows %q, want %q", variable, got, want)
		}
	}
}

// A launcher has to start a shell on as many nodes as were asked for, whatever its exit code. Who did not answer is
// named where the names are known, with the launcher's words about it.
func TestPreflightReaches(t *testing.T) {
	const a, b, rule = "tunefit-preflight: a done\n", "tunefit-preflight: b.site done\n", "--------\n"
	const lost = "ssh: connect to host b port 22: No route to host"
	for _, test := range []struct {
		hosts   string // of the launcher
		ended   error
		printed string
		want    string // empty: all were reached
	}{
		{"a b", nil, a + a + b + b, ""},
		{"10.0.0.1 10.0.0.2", nil, a + b, ""},
		{"a b", nil, a + a + a + a, "b did not answer, a did; it ended with exit code 0 (see "},
		{"a b c", nil, a, "b did not answer, a did; it ended with exit code 0 (see "}, // c is not used
		{"10.0.0.1 10.0.0.2", nil, a, "1 host name answered: a; it ended with exit code 0 (see "},
		{"a b", nil, a + b + "tunefit-preflight: c done\n",
			"3 host names answered: a, b.site, c; it ended with exit code 0 (see "},
		{"a b", nil, "", "none answered; it ended with exit code 0 (see "},
		{"a b", nil, a + lost + "\nbye\n", "b did not answer, a did; it ended with exit code 0: " + lost + " (see "},
		{"a b", errors.New("no"), rule + lost + "\n" + rule + "Look it up.\n",
			"none answered; it ended with exit code -1: " + lost + " (see "},
		{"10.0.0.1 10.0.0.2", errors.New("no"), a + rule + "It ended.\n" + rule,
			"1 host name answered: a; it ended with exit code -1: It ended. (see "},
		{"a b", errors.New("no"), a + b, "all answered; it ended with exit code -1 (see "},
		{"a b", errSilent, a + a, "b did not answer, a did; it printed nothing more for 5m0s and was ended (see "},
	} {
		l, err := launch.New(launch.Options{With: "pdsh {hosts} {command}", Hosts: strings.Fields(test.hosts)})
		if err != nil {
			t.Fatal(err)
		}
		s := &Sweep{folder: &folder{Options: Options{Launcher: l, Silence: 5 * time.Minute}}}
		answered, _, _ := readPreflight(test.printed, 8)
		got := s.unreached(test.ended, []byte(test.printed), 2, answered)
		if (got == "") != (test.want == "") || !strings.Contains(got, "each of 2 nodes: "+test.want) && got != "" {
			t.Errorf("%s: %v, %q:\ngot  %q\nwant %q", test.hosts, test.ended, test.printed, got, test.want)
		}
	}
}
