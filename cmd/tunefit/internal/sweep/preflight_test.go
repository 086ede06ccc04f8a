package sweep

import (
	"slices"
	"testing"
)

// What is missing is told once for all nodes that lack it, with what to do once for all of a kind.
func TestPreflightFinds(t *testing.T) {
	for _, test := range []struct {
		printed string
		nodes   []string
		problem string
	}{
		{"", nil, ""},
		{"Warning: added host\ntunefit-preflight: b done\ntunefit-preflight: a done\r\ntunefit-preflight: b done\n", []string{"a", "b"}, ""},
		{"0: tunefit-preflight: b folder /data/sweep\n0: tunefit-preflight: b done\n1: tunefit-preflight: a done\n", []string{"a", "b"},
			"on b the sweep's folder /data/sweep is not there (-o has to name a folder that all nodes see)"},
		{"tunefit-preflight: a library /opt/libx.so\n", []string{"a"},
			"on a there is no tuner library /opt/libx.so (--plugin names it, in a folder that all nodes see)"},
		{"tunefit-preflight: a loads /opt/libx.so: wrong ELF class\n", []string{"a"},
			"on a the tuner library cannot be loaded: /opt/libx.so: wrong ELF class (--plugin names one that is built for these nodes)"},
		{"tunefit-preflight: b program y_perf\ntunefit-preflight: c needs z_perf: libmpi.so => not found\ntunefit-preflight: b program x_perf\n" +
			"tunefit-preflight: a program y_perf\ntunefit-preflight: b program y_perf\n", []string{"a", "b", "c"},
			"on c a library is missing: z_perf: libmpi.so => not found " +
				"(LD_LIBRARY_PATH has to name its folder on each node, or the programs are built anew); " +
				"on a, b there is no program y_perf; on b there is no program x_perf " +
				"(--perf-dir names the folder of nccl-tests' programs, as all nodes see it)"},
		{"tunefit-preflight: a something else\n", nil, ""},
	} {
		if nodes, problem := found(test.printed); problem != test.problem || !slices.Equal(nodes, test.nodes) {
			t.Errorf("%q:\ngot  %q on %q\nwant %q on %q", test.printed, problem, nodes, test.problem, test.nodes)
		}
	}
}
