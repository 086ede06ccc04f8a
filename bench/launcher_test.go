package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Whatever a launcher or a collector puts before each line, the rows and what NCCL says between them are read.
func TestPrefixes(t *testing.T) {
	const info = "node0:7:9 [0] NCCL INFO "
	plain := oneRun(info+"NCCL_ALGO set by environment to Ring", info+"comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2")
	each := func(format string) func(int, string) string {
		return func(n int, line string) string {
			return strings.NewReplacer("N", fmt.Sprint(n), "L", line).Replace(format)
		}
	}
	for name, wrap := range map[string]func(n int, line string) string{
		"none":             func(_ int, line string) string { return line },
		"SkyPilot":         each("(head, rank=0, pid=3808) L"),
		"kubectl --prefix": each("[pod/nccl-launcher-abcde/launcher] L"),
		"--timestamps":     each("2026-02-03T10:11:12.00N456789Z L"),
		"time with zone":   each("2026-02-03 10:11:1N,12+01:00 L"),
		"syslog":           each("Feb  3 10:11:1N node7 nccl[412N]: L"),
		"half a day":       each("2/3/2026 1:11:1N PM | L"),
		"compose":          each("nccl-1  | L"),
		"Open MPI, time":   each("Tue Feb  3 10:11:1N 2026[1,0]<stdout>:L"),
		"tag and rank":     each("[1,0]<stdout>:[default0]:L"),
		"PRRTE":            each("[prterun-head-7@1,0]<stdout>: L"),
		"PALS":             each("nid00N.cluster 0: L"),
		"pdsh":             each("node12: L"),
		"host":             each("worker: L"),
		"line numbers":     each("  10N\tL"),
		"GitLab": func(n int, line string) string {
			return fmt.Sprintf("2024-05-01T12:00:0%d.000000Z 0%x%c %s", n, n+6, "OE"[n%2], line)
		},
		"quotes":            each("> L"),
		"nested quotes":     each("> > L"),
		"list of ansible":   each(`            "L",`),
		"notebook":          each(`    "L\n",`),
		"buildkit":          each("#12 3.N56 L"),
		"CRI":               each("2026-02-03T10:11:12.00N456789Z stdout F L"),
		"colour":            each("\x1b[32m\x1b[1mnode7\x1b[0m | L\x1b[0m"),
		"Windows":           each("L\r"),
		"no-break spaces":   func(_ int, line string) string { return strings.ReplaceAll(line, " ", "\u00a0") },
		"Docker's JSON":     func(_ int, line string) string { return object("log", line+"\n") },
		"a collector's":     func(_ int, line string) string { return object("message", line) },
		"JSON and a prefix": func(n int, line string) string { return object("log", fmt.Sprintf("[%d] x| %s", n, line)) },
	} {
		var text strings.Builder
		for n, line := range strings.Split(strings.TrimSuffix(plain, "\n"), "\n") {
			text.WriteString(wrap(n%8+1, line) + "\n")
		}
		r, err := Read(strings.NewReader(text.String()), "x.log", Options{})
		if err != nil || len(r.Samples) != 2 {
			t.Errorf("%s: %v %+v\n%s", name, err, r, text.String())
			continue
		}
		if s := r.Samples[0]; s.Micros != 41.5 || s.Ranks != 2 || s.Nodes != 1 || s.Selection != SelectionForced ||
			s.Setup.Options != "-t 1 -g 1 -n 20 -w 5" || len(r.Notes) > 0 {
			t.Errorf("%s: %+v under %q, %v", name, s, s.Setup.Options, r.Notes)
		}
	}
}

func object(key, line string) string {
	text, _ := json.Marshal(map[string]string{key: line, "stream": "stdout"})
	return string(text)
}

// Lines of two processes, each with a test of its own: their tags tell them apart, and without one they are refused.
func TestRunsApart(t *testing.T) {
	runs := [2][]string{}
	for i := range runs {
		run := strings.ReplaceAll(head("all_reduce_perf", 1, 4), "node0", fmt.Sprintf("node%d", i))
		runs[i] = strings.Split(run+line(1<<20, "sum", -1, 41.5, 40.25, 1.5)+tail(0), "\n")
	}
	for tag, want := range map[string]string{"%d: ": "1x4 1x4 1x4 1x4 ", "node%d: ": "1x4 1x4 1x4 1x4 ",
		"10:11:12 [%d] ": "1x4 1x4 1x4 1x4 ", "[1,%d]<stdout>:": "1x4 1x4 1x4 1x4 ", "": ""} {
		text := ""
		for n := range runs[0] {
			for i := range runs {
				if tag != "" {
					text += fmt.Sprintf(tag, i)
				}
				text += runs[i][n] + "\n"
			}
		}
		r, err := Read(strings.NewReader(text), "x.log", Options{})
		got := ""
		for _, s := range r.Samples {
			got += s.Comm.String() + " "
		}
		if err != nil || got != want || want == "" && (len(r.Rejected) != 1 || r.Rejected[0].Reason != rejectMixed) {
			t.Errorf("%q: %v, %q, %+v\n%s", tag, err, got, r.Rejected, text)
		}
	}
}

// A process that begins later prints its header among the rows of another one, whose rows then stand below it.
func TestRowsBelowAnothersHeader(t *testing.T) {
	rows := func(us float64) (rows [3]string) {
		for i := range rows {
			rows[i] = line(1<<(20+2*i), "sum", -1, us, us, 1.5)
		}
		return rows
	}
	begin := strings.Replace(head("all_reduce_perf", 1, 4), "minBytes 1024 maxBytes 4096 step: 2", "minBytes 1048576 "+
		"maxBytes 16777216 step: 4", 1)
	a, b := rows(40), rows(60)
	r, err := Read(strings.NewReader(begin+a[0]+begin+b[0]+a[1]+b[1]+a[2]+b[2]+tail(0)), "x.log", Options{})
	if err != nil || len(r.Samples) != 2 || len(r.Rejected) != 1 || r.Rejected[0].Reason != rejectMixed {
		t.Errorf("%v %+v", err, r)
	}
}

// nccl-tests prints a row in pieces, and Open MPI puts its tag before each.
func TestTagsInsideRows(t *testing.T) {
	for _, tag := range []string{"[1,0]<stdout>:", "[prterun-head-7@1,0]<stdout>: ", "Tue Feb  3 10:11:12 2026[1,12]<stdout>:",
		" 0: "} {
		text := strings.ReplaceAll(head("all_reduce_perf", 1, 2), "#", tag+"#") + tag +
			"     1048576        262144     float     sum      -1" + tag + "   41.50   25.27   25.27       0" + tag +
			"   40.25   26.05   26.05       0\n" + strings.ReplaceAll(tail(0), "#", tag+"#")
		r, err := Read(strings.NewReader(text), "x.log", Options{})
		if err != nil || len(r.Samples) != 2 || r.Samples[0].Micros != 41.5 || r.Samples[1].Micros != 40.25 {
			t.Errorf("%v %+v\n%s", err, r, text)
		}
	}
}

// Ansible prints what a command wrote as one line.
func TestTextInOneLine(t *testing.T) {
	text, _ := json.Marshal(oneRun("NCCL_ALGO set by environment to Ring"))
	for _, end := range []string{"\n}\n", ",\n    \"rc\": 0\n}\n", "}\n"} {
		r, err := Read(strings.NewReader("ok: [node0] => {\n    \"msg\": "+string(text)+end), "x.log", Options{})
		if err != nil || len(r.Samples) != 2 || r.Samples[0].Micros != 41.5 || r.Samples[0].Selection != SelectionForced ||
			r.Samples[0].Setup.NCCL != "2.29.2" {
			t.Errorf("%v %+v", err, r)
		}
	}
}

// A row is read behind whatever stands before it.
func TestPrefixThatChanges(t *testing.T) {
	text := strings.ReplaceAll("\n"+head("all_reduce_perf", 1, 2), "\n#", "\n9.8s #") + "10.1s " +
		line(1<<20, "sum", -1, 41.5, 40.25, 1) + "1m2s " + line(2<<20, "sum", -1, 51.5, 50.25, 1) +
		strings.ReplaceAll("\n"+tail(0), "\n#", "\n9.8s #")
	r, err := Read(strings.NewReader(text), "x.log", Options{})
	if err != nil || len(r.Samples) != 4 || len(r.Rejected) > 0 || r.Samples[3].Micros != 50.25 {
		t.Errorf("%v %+v", err, r)
	}
}

// A table of Markdown is read like the rows that it shows.
func TestMarkdownTable(t *testing.T) {
	r, err := Read(strings.NewReader("| size (B) | count | type | redop | root | time (us) | algbw (GB/s) | busbw (GB/s) | #wrong |\n"+
		"|---|---:|---|---|---|---|---|---|---|\n| 1024 | 256 | float | sum | -1 | 50.00 | 0.02 | 0.03 | 0 |\n"+
		"| 1048576 | 262144 | float | sum | -1 | 52.00 | 20.16 | 35.29 | 0 |\n"), "x.md", Options{})
	if err != nil || len(r.Samples) != 2 || r.Samples[1].Micros != 52 || r.Samples[1].BusBW != 35.29 {
		t.Errorf("%v %+v", err, r)
	}
}

// What has no rows says how all its lines begin.
func TestPrefixThatIsNotUnderstood(t *testing.T) {
	_, err := Read(strings.NewReader("@@worker~ one\n@@worker~ two\n@@worker~ three\n"), "x.log", Options{})
	if err == nil || !strings.Contains(err.Error(), `every line begins with "@@worker~"`) {
		t.Error(err)
	}
}

// Of two hosts that a glued line may name, it is the one of the longer name.
func TestGluedHost(t *testing.T) {
	known := scanner{hosts: map[string]bool{"n1": true, "gpu-n1": true, "u-n1": true}}
	l, ok := known.log([]byte("float sum -1gpu-n1:12:13 [0] NCCL INFO x"))
	if !ok || string(l.host) != "gpu-n1:12" || string(l.row) != "float sum -1" || string(l.said) != "gpu-n1:12:13 [0] NCCL INFO x" {
		t.Errorf("%q of %q: %q", l.row, l.host, l.said)
	}
}
