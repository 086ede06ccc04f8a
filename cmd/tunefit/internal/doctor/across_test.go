package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// answerOf is what a node prints.
func answerOf(t *testing.T, host string, findings []Finding) string {
	t.Helper()
	t.Setenv("SLURMD_NODENAME", host)
	var b bytes.Buffer
	if err := WriteAnswer(&b, findings); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func is(check string, f Finding) Finding {
	f.Check = check
	return f
}

// Lines of answers may come in any order, among others and with a launcher's names before them; none is long.
func TestAnswersMixed(t *testing.T) {
	noise := make([]byte, 6000)
	for i := range noise {
		noise[i] = byte('!' + rand.IntN(90))
	}
	var lines []string
	for n := range 20 {
		text := answerOf(t, fmt.Sprintf("node%d", n+1), []Finding{is("nccl", fine("%s", noise[n:])),
			is("files", warned("do it", "odd \u00b5 text"))})
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			if len(line) > 1000 {
				t.Fatalf("a line of %d bytes", len(line))
			}
			lines = append(lines, fmt.Sprintf("[1,%d]<stdout>:%s\r\n", n, line),
				fmt.Sprintf("%d: node%d:1:2 [0] NCCL INFO\n", n, n))
		}
	}
	rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	var a Answers
	other := 0
	for _, line := range lines {
		if !a.Read(line) {
			other++
		}
	}
	if a.Count() != 20 || len(a.begun) != 0 || other != len(lines)/2 {
		t.Fatalf("%d answers, %d begun, %d other lines of %d", a.Count(), len(a.begun), other, len(lines))
	}
	for _, n := range a.complete {
		if f := n.findings[1]; len(n.findings) != 2 || f.Severity != isWarning || f.Do != "do it" ||
			f.Found != "odd \u00b5 text" {
			t.Errorf("%+v", f)
		}
		if long := n.findings[0].Found; len(long) < len(noise)-20 || !strings.HasSuffix(string(noise), long) {
			t.Errorf("%s", long)
		}
	}
}

// across is what a person sees of nodes that found something.
func across(t *testing.T, want int, nodes map[string][]Finding) string {
	t.Helper()
	var a Answers
	for host, findings := range nodes {
		for line := range strings.Lines(answerOf(t, host, findings)) {
			a.Read(line)
		}
	}
	findings, verdict := a.Across(want)
	var b bytes.Buffer
	if err := Write(&b, findings); err != nil {
		t.Fatal(err)
	}
	return b.String() + verdict + "\n"
}

func TestAcross(t *testing.T) {
	ok := func(version string) []Finding {
		return []Finding{is("files", fine("p.csv, version %s", version)),
			is("rendezvous", fine("/dev/shm, %dµs for a record", rand.IntN(100))),
			is("limits", fine("room for %d threads", rand.IntN(100)))}
	}
	alike := map[string][]Finding{"node2": ok("a"), "node1": ok("a"), "node10": ok("a")}
	for i := range 3 { // how much room there is differs, or not, by chance
		alike[[]string{"node1", "node2", "node10"}[i]][2] = is("limits", fine("room for 5"))
	}
	got := across(t, 3, alike)
	if !strings.HasSuffix(got, "sound\n3 nodes agree\n") || strings.Count(got, "\n") != 5 ||
		strings.Contains(got, "node1") {
		t.Errorf("%s", got)
	}
	alike["node10"][2] = is("limits", fine("room for 7"))
	if got := across(t, 3, alike); !strings.HasSuffix(got, "sound\n3 nodes agree\n") ||
		!strings.Contains(got, "node[1,2]: room for 5") && !strings.Contains(got, "node[1-2]: room for 5") {
		t.Errorf("%s", got)
	}
	// Each is sound for itself.
	alike["node2"] = ok("b")
	alike["node2"][2] = is("limits", fine("room for 5"))
	got = across(t, 3, alike)
	for _, words := range []string{"error    files       the nodes differ",
		"ok       files       node2: p.csv, version b", "node[1,10]: p.csv, version a",
		"1 error, 0 warnings\n3 nodes differ in files\n"} {
		if !strings.Contains(got, words) {
			t.Errorf("no %q in\n%s", words, got)
		}
	}
	// CPUs of two vendors are one finding, with the nodes of each.
	cpus := map[string][]Finding{}
	vendors := map[string]string{"node1": "GenuineIntel", "node2": "AuthenticAMD", "node3": "GenuineIntel"}
	for host, vendor := range vendors {
		d := testDoctor(t)
		text := "processor\t: 0\nvendor_id\t: " + vendor + "\nprocessor\t: 1\nvendor_id\t: " + vendor + "\n"
		if err := os.WriteFile(filepath.Join(d.proc, "cpuinfo"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cpus[host] = d.examine(t.Context(), only("cpu"))
	}
	got = across(t, 3, cpus)
	for _, words := range []string{"warning  cpu  the nodes' CPUs differ", "node[1,3]: ", ", GenuineIntel\n",
		"node2: ", ", AuthenticAMD\n", "0 errors, 1 warning\n3 nodes differ in cpu\n"} {
		if !strings.Contains(got, words) {
			t.Errorf("no %q in\n%s", words, got)
		}
	}
	delete(cpus, "node2")
	if got := across(t, 2, cpus); !strings.HasSuffix(got, "sound\n2 nodes agree\n") {
		t.Errorf("%s", got)
	}
	// One has a fault of its own.
	alike["node2"] = []Finding{is("files", failed("correct the path", "p.csv: no such file"))}
	got = across(t, 4, alike)
	for _, words := range []string{"error    launch      3 of 4 nodes answered: node[1-2,10]",
		"error    files       node2: p.csv: no such file", "-> correct the path",
		"2 errors, 0 warnings\n3 nodes differ in files\n"} {
		if !strings.Contains(got, words) {
			t.Errorf("no %q in\n%s", words, got)
		}
	}
	// And the others differ.
	alike["node10"] = ok("b")
	got = across(t, 3, alike)
	for _, words := range []string{"error    files       the nodes differ", "error    files       node2: p.csv: no such file"} {
		if !strings.Contains(got, words) {
			t.Errorf("no %q in\n%s", words, got)
		}
	}
	if got := across(t, 4, nil); !strings.Contains(got, "0 of 4 nodes answered\n") ||
		!strings.HasSuffix(got, "no node answered\n") {
		t.Errorf("%s", got)
	}
}

// What a launcher damaged, and a second process of a node, are told.
func TestAnswersDamaged(t *testing.T) {
	whole := answerOf(t, "node1", []Finding{is("files", fine("a")), is("nccl", failed("", "b"))})
	for name, damaged := range map[string]string{
		"a line was cut":         whole[:len(whole)-20],
		"a line is missing":      whole[:strings.Index(whole, "\n")+1],
		"a line is among others": strings.Replace(whole, `"check"`, `"che{"other":1}ck"`, 1),
		"no line was left whole": strings.ReplaceAll(whole, `"check"`, `"check`),
		"it is of other lines":   strings.Replace(whole, `"of":2`, `"of":3`, 1),
		"it is of no line":       strings.Replace(whole, `"at":1`, `"at":2`, 1),
	} {
		var a Answers
		for line := range strings.Lines(whole + strings.ReplaceAll(damaged, "node1", "node2")) {
			a.Read(line)
		}
		findings, _ := a.Across(2)
		t.Log(name)
		mustFind(t, findings, "launch", isError, "1 of 2 nodes answered: node1", "look at what the launcher says")
		mustFind(t, findings, "launch", isError, "damaged the answer of node2")
		for line := range strings.Lines(strings.ReplaceAll(whole, "node1", "node2")) { // it comes once more
			a.Read(line)
		}
		if _, verdict := a.Across(2); verdict != "2 nodes agree" {
			t.Error(verdict)
		}
	}
	var a Answers
	for line := range strings.Lines(whole + whole) {
		a.Read(line)
	}
	findings, _ := a.Across(2)
	mustFind(t, findings, "launch", isError, "1 of 2 nodes answered: node1, by 2 processes", "ppr:1:node")
	for _, bad := range []string{"", `{"tunefit":"node1 1","at":-1,"of":1,"check":"nccl"}`,
		`{"tunefit":"node1 1","at":1,"of":99999999999999999999,"check":"nccl"}`,
		`{"tunefit":"node1 1","at":3,"of":2,"check":"nccl"}`, `{"tunefit":"node1","at":0,"of":1}`} {
		if a.Read(bad) {
			t.Errorf("%s", bad)
		}
	}
}

func TestHostList(t *testing.T) {
	for want, hosts := range map[string][]string{
		"":                             nil,
		"a":                            {"a"},
		"gpu07":                        {"gpu07"},
		"node[1-3,10]":                 {"node10", "node3", "node1", "node2"},
		"n[08-11], x7":                 {"n10", "n09", "x7", "n08", "n11"},
		"a, b, ip-10-0-0-[7-8]":        {"b", "a", "ip-10-0-0-7", "ip-10-0-0-8"},
		"n, n1":                        {"n", "n1"},
		"node1.cluster, node2.cluster": {"node2.cluster", "node1.cluster"},
	} {
		slices.SortFunc(hosts, compareHosts)
		if got := hostList(hosts); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNodesOf(t *testing.T) {
	for launcher, want := range map[string]int{
		"srun -N 4":                       4,
		"srun -N4 -n 32":                  4,
		"srun --nodes=4 -p gpu":           4,
		"/usr/bin/srun --nodes 4":         4,
		"srun -n 3":                       3,
		"mpirun -np 4 --host a,b,c,d":     4,
		"mpirun -N 1 -n 4":                4,
		"kubectl exec l -- mpirun --np=4": 4,
		"srun":                            0,
		"pdsh -w node[1-4]":               0,
	} {
		if got := NodesOf(launcher); got != want {
			t.Errorf("%s: %d, want %d", launcher, got, want)
		}
	}
}

// Who does not answer when the others have is not waited for, and what the launcher prints is passed on.
func TestAskNodesLate(t *testing.T) {
	answer := testlib.File(t, "answer", answerOf(t, "node1", []Finding{is("files", fine("a"))}))
	launcher := testlib.File(t, "launcher", "echo to standard output; echo \"$0 $*\" >&2; cat "+answer+
		"; sleep 3600 & wait\n")
	var log bytes.Buffer
	var seen []int
	a, err := AskNodes(t.Context(), "sh "+launcher+" 'a  b'", []string{"tunefit", "it's"}, &log,
		func(n int) { seen = append(seen, n) }, time.Second)
	if len(seen) < 2 || seen[0] != 0 || seen[len(seen)-1] != 1 {
		t.Errorf("the number of answers was said to be %v", seen)
	}
	if err != nil || a.Count() != 1 {
		t.Fatalf("%v: %+v", err, a)
	}
	if said := log.String(); !strings.Contains(said, "to standard output\n") ||
		!strings.Contains(said, "a  b tunefit it's\n") || strings.Contains(said, "node1") {
		t.Errorf("%s", said)
	}
	a, err = AskNodes(t.Context(), "false", []string{"tunefit"}, &log, func(int) {}, time.Second)
	if err != nil || a.Count() != 0 {
		t.Errorf("%v: %+v", err, a)
	}
}

func TestFindingJSON(t *testing.T) {
	f := Finding{Check: "files", Severity: isWarning, Found: "it is old", Do: "renew it", Unknown: true, Nodes: []string{"n1"}}
	text, err := json.Marshal(f)
	const want = `{"check":"files","severity":"warning","found":"it is old","do":"renew it","unknown":true,"nodes":["n1"]}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	var back Finding
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, f) {
		t.Errorf("%+v, %v", back, err)
	}
}

func found(s severity, do, format string, args ...any) Finding {
	var r report
	r.add(s, do, format, args...)
	return r[0]
}

func fine(format string, args ...any) Finding { return found(isFine, "", format, args...) }

func warned(do, format string, args ...any) Finding { return found(isWarning, do, format, args...) }

func failed(do, format string, args ...any) Finding { return found(isError, do, format, args...) }
