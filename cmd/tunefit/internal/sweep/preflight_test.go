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
		nodes   []string
		answers int
		problem string
	}{
		{"", nil, 0, ""},
		{"Warning: added host\ntunefit-preflight: b done\ntunefit-preflight: a done\r\ntunefit-preflight: b done\n",
			[]string{"a", "b"}, 3, ""},
		{"0: tunefit-preflight: b folder /data/sweep\n0: tunefit-preflight: b done\n1: tunefit-preflight: a done\n",
			[]string{"a", "b"}, 2,
			"on b the sweep's folder /data/sweep is not the one that tunefit writes to " +
				"(-o has to name a folder that all nodes see); " +
				"on a nothing is missing (--hosts, or -x among Slurm's --launch-args, leave nodes out)"},
		{"tunefit-preflight: a library /opt/libx.so\n", []string{"a"}, 0,
			"on a there is no tuner library /opt/libx.so (--plugin names it, in a folder that all nodes see)"},
		{"tunefit-preflight: a loads /opt/libx.so: wrong ELF class\n", []string{"a"}, 0,
			"on a the tuner library cannot be loaded: /opt/libx.so: wrong ELF class (--plugin names one that is " +
				"built for these nodes)"},
		{"tunefit-preflight: b program y_perf\ntunefit-preflight: c needs z_perf: libmpi.so => not found\n" +
			"tunefit-preflight: b program x_perf\n" +
			"tunefit-preflight: a program y_perf\ntunefit-preflight: b program y_perf\n", []string{"a", "b", "c"}, 0,
			"on c a library is missing: z_perf: libmpi.so => not found " +
				"(LD_LIBRARY_PATH has to name its folder on each node, or the programs are built anew); " +
				"on a, b there is no program y_perf; on b there is no program x_perf " +
				"(--perf-dir names the folder of nccl-tests' programs, as all nodes see it)"},
		{"tunefit-preflight: a something else\n", nil, 0, ""},
	} {
		nodes, answers, problem := found(test.printed)
		if problem != test.problem || answers != test.answers || !slices.Equal(nodes, test.nodes) {
			t.Errorf("%q:\ngot  %q on %q, %d answers\nwant %q on %q, %d answers",
				test.printed, problem, nodes, answers, test.problem, test.nodes, test.answers)
		}
	}
}

// What keeps a launcher from starting a shell on all nodes is told by its words that matter, with who answered.
func TestPreflightReaches(t *testing.T) {
	l, err := launch.New(launch.Options{With: "pdsh {hosts} {command}", Hosts: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Sweep{Options: Options{Launcher: l, Silence: 5 * time.Minute}}
	const a, b, rule = "tunefit-preflight: a done\n", "tunefit-preflight: b done\n", "--------\n"
	const lost = "ssh: connect to host b port 22: No route to host"
	for _, test := range []struct {
		ended   error
		printed string
		want    string // empty: all were reached
	}{
		{nil, a + a + b + b, ""},
		{nil, a + a + a + a, ""}, // nodes of one name
		{nil, a + b + b, ""},     // a line was damaged
		{nil, a, ""},             // one that plays all
		{nil, "", "exit code 0: it printed nothing (see "},
		{nil, a + a, "exit code 0: it printed nothing; a answered (see "},
		{nil, a + lost + "\n", "exit code 0: " + lost + "; it names b; a answered (see "},
		{errors.New("no"), rule + lost + "\n" + rule + "Look it up.\n", "exit code -1: " + lost + "; it names b (see "},
		{errors.New("no"), a + rule + "It ended.\n" + rule, "exit code -1: It ended.; a answered (see "},
		{errSilent, a + a, "nothing more was printed for 5m0s; a answered (see "},
	} {
		nodes, answers, _ := found(test.printed)
		got := s.unreached(test.ended, []byte(test.printed), 2, 4, nodes, answers)
		if (got == "") != (test.want == "") || !strings.Contains(got, ": "+test.want) && got != "" {
			t.Errorf("%v, %q:\ngot  %q\nwant %q", test.ended, test.printed, got, test.want)
		}
	}
}
