package ask_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// showOne shows one outcome. The notes are without the one that names the estimates, which
// has to be that of the outcome.
func showOne(t *testing.T, args ...string) (o ask.Outcome, notes string) {
	t.Helper()
	out, notes := tunefit(t, cli.ExitOK, append([]string{"show", "--json"}, args...)...)
	var all []ask.Outcome
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	notes, estimated := cutLine(notes, "note: NCCL's default")
	said := " is taken from "
	if o = all[0]; o.Known == ask.NotKnown {
		said = "'s default for " + o.Comm.Comm.String() + " on HGX H100 is not known"
	} else {
		said += o.CostModel
	}
	if o.CostModel == "" || !strings.Contains(estimated, said) {
		t.Errorf("taken from %q, and the note is %q", o.CostModel, estimated)
	}
	return o, notes
}

// cutLine takes the line that begins so out of a text.
func cutLine(text, begin string) (rest, line string) {
	for _, l := range strings.SplitAfter(text, "\n") {
		if strings.HasPrefix(l, begin) {
			line = l
		} else {
			rest += l
		}
	}
	return rest, line
}

// install makes a release the installed one, for one test.
func install(t *testing.T, v nccl.Version) {
	before := testkit.Env.Installed
	testkit.Env.Installed = func() nccl.Version { return v }
	t.Cleanup(func() { testkit.Env.Installed = before })
}

// sweepWith is a sweep in which tree/ll takes half of the default's time, measured with a release; "": it does not say.
func sweepWith(t *testing.T, release string) (file string) {
	text := "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us,source,nccl_version\n"
	for _, size := range []string{"4096", "8192", "16384"} {
		for _, repetition := range []string{"", "1", "2"} {
			text +=
				"allreduce," + size + ",ring,simple,8,1,8,default,100." + repetition + "0,a" + repetition +
					"," + release + "\n" +
					"allreduce," + size + ",tree,ll,8,1,8,forced,50." + repetition + "0,b" + repetition + "," + release +
					"\n"
		}
	}
	return testlib.File(t, "sweep.csv", text)
}

// fit writes which release was measured, and show asks as that release, not as the installed one. Files that say
// different ones leave it open.
func TestReleaseOfAPolicy(t *testing.T) {
	install(t, 22707)
	dir := t.TempDir()
	sweep, policy, model := sweepWith(t, "2.28.9"), filepath.Join(dir, "policy.csv"), filepath.Join(dir, "model.json")
	tunefit(t, cli.ExitOK, "fit", sweep, "-o", model, "--csv", policy)
	other := testlib.File(t, "other.csv", "# tunefit:measured 2.30.7\nallreduce,0,inf,ring,ll,2,1,8\n")
	mixed := testlib.File(t, "mixed.csv", "# tunefit:measured 2.28.9, 2.30.7\nallreduce,0,inf,ring,ll,2,1,8\n")
	for _, test := range []struct {
		args    []string
		release string
		of      string // the file that says so
	}{
		{[]string{policy}, "2.28.9", policy},
		{[]string{"--model", model}, "2.28.9", model},
		{[]string{other}, "2.30.7", other},
		{[]string{policy, "--nccl", "2.21.5"}, "2.21.5", ""},
		{[]string{other, "--model", model}, "2.27.7", ""},
		{[]string{mixed}, "2.30.7", mixed},
	} {
		out, notes := tunefit(t, cli.ExitOK, append([]string{"show", "--json", "--coll", "allreduce", "--comm", "1x8",
			"--sizes", "1M"}, test.args...)...)
		var all []ask.Outcome
		if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 || all[0].Release != test.release {
			t.Errorf("%v: %v\n%s", test.args, err, out)
		}
		said := strings.Contains(notes, "note: for NCCL "+test.release+", which "+test.of+
			" was measured with (--nccl names another release)\n")
		if said != (test.of != "") {
			t.Errorf("%v: %s", test.args, notes)
		}
	}
}

// What NCCL chooses by itself is that of the release named, else of the installed one, else of the newest known.
func TestWhichNCCL(t *testing.T) {
	rows := testlib.File(t, "p.csv", "allgather,0,inf,ring,ll,2,1,8\n")
	for _, test := range []struct {
		installed nccl.Version
		named     string
		want      string // release and choice
		note      string
	}{
		{0, "", "2.31.2 tree/ll128", ""},
		{22707, "", "2.27.7 nvls_tree/simple", ""},
		{22707, "2.29", "2.29.7 tree/ll128", ""},
		{22105, "", "2.21.5 nvls_tree/simple", ""},
		{22005, "", "2.31.2 tree/ll128",
			"the tuner ABI of NCCL 2.20.5, installed here, is not known; this is for NCCL 2.31.2"},
		{23203, "", "2.32.3 tree/ll128", "the estimates of NCCL 2.32.3 were read, and compared with none of its choices"},
		{23206, "", "2.32.6 tree/ll128", "the rules of NCCL 2.32.6 are not known; those of 2.32.3 are used"},
	} {
		install(t, test.installed)
		args := []string{rows, "--coll", "allreduce", "--comm", "2x8", "--sizes", "512K"}
		if test.named != "" {
			args = append(args, "--nccl", test.named)
		}
		o, notes := showOne(t, args...)
		if got := o.Release + " " + o.NCCL.Cell.String(); got != test.want ||
			!strings.Contains(notes, test.note) || test.note == "" && notes != "" {
			t.Errorf("installed %d, %q: %s, %q", test.installed, test.named, got, notes)
		}
		if rules := strings.Replace(o.Release, "2.32.6", "2.32.3",
			1); o.CostModel != "NCCL "+rules+"'s estimates for HGX H100" {
			t.Errorf("NCCL %s: estimated by %s", o.Release, o.CostModel)
		}
		if told := map[bool]int{true: 2, false: 0}[o.Release >= "2.28"]; o.Comm.NVLDomains != told {
			t.Errorf("NCCL %s tells of %d NVLink domains, want %d", o.Release, o.Comm.NVLDomains, told)
		}
	}
	for name, want := range map[string]string{"2.20.5": "the oldest is 2.21.5", "2.31.0a7": "known: 2.21.5",
		"new": "not a release"} {
		if _, errs := tunefit(t, cli.ExitUsage, "show", rows, "--nccl", name); !strings.Contains(errs, want) {
			t.Errorf("%s: %s", name, errs)
		}
	}
}

// The library is asked as that release asks, and the explanation is of that: exit code 1 if the two differ.
func TestEachReleaseAsksAsItDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	rows := testlib.File(t, "p.csv", `collective,max_bytes,algorithm,protocol,channels,reg_buff,chunk_bytes,when
allreduce,4K,ring,ll128,,,,
allreduce,64K,,simple,2,,,
allreduce,1M,tree,simple,4,0,,
allreduce,2M,ring,simple,,,64K,nvl_domains == 2
allreduce,inf,ring,simple,60,,64K,
`)
	for version, want := range map[string][5]string{ // by size: the row that decides, its channels, and its chunk size
		"2.21.5": {"6 60", "6 60", "6 60", "6 60", "6 60"}, // no costs, no reg_buff: rows 2 to 5 never match
		"2.22.3": {"2 -", "3 2", "6 60", "6 60", "6 60"},
		"2.27.7": {"2 -", "3 2", "4 4", "6 60", "6 60"},
		"2.29.7": {"2 -", "3 2", "4 4", "5 -", "6 60"},
		"2.30.7": {"2 -", "3 2", "4 4", "5 - 64KiB", "6 60 64KiB"},
		"2.31.2": {"2 -", "3 2", "4 4", "5 - 64KiB", "6 (60) 64KiB"},
		"2.32.6": {"2 -", "3 2", "4 4", "5 - 64KiB", "6 (60) 64KiB"},
	} {
		for i, size := range []string{"4K", "64K", "1M", "2M", "64M"} {
			o, notes := showOne(t, rows, "--coll", "allreduce", "--comm", "2x8", "--sizes", size, "--nccl", version)
			got := "NCCL"
			if o.Row > 0 {
				channels := "-"
				switch {
				case o.Policy.Channels > 0:
					channels = itoa(o.Policy.Channels)
				case o.NotRaised > 0:
					channels = "(" + itoa(o.NotRaised) + ")"
				}
				got = strings.TrimSpace(itoa(o.Row) + " " + channels)
				if o.Chunk > 0 {
					got += " 64KiB"
				}
			}
			if got != want[i] {
				t.Errorf("NCCL %s, %s: %s, want %s", version, size, got, want[i])
			}
			if said := strings.Contains(notes,
				"takes a tuner's channels only where they are fewer than its own: 1 count is without effect, as the "+
					"60 of p.csv:6"); said != (o.NotRaised > 0) {
				t.Errorf("NCCL %s, %s: %s", version, size, notes)
			}
			explained, _ := tunefit(t, cli.ExitOK, "explain", "allreduce", size, "--comm", "2x8", "--policy", rows,
				"--nccl", version)
			if !strings.Contains(explained, "\n"+o.CostModel) ||
				strings.Contains(explained, "the 60 channels asked for are without effect") != (o.NotRaised > 0) {
				t.Errorf("NCCL %s, %s:\n%s", version, size, explained)
			}
		}
	}
}

// NCCL 2.21 does not tell a tuner what its variables allow, and the library leaves all to it then.
func TestVariablesThatAReleaseDoesNotTell(t *testing.T) {
	rows := testlib.File(t, "p.csv", "allreduce,0,inf,ring,simple,2,1,8\n")
	for release, row := range map[string]int{"2.21.5": 0, "2.22.3": 1} {
		t.Setenv("NCCL_PROTO", "^LL128")
		o, _ := showOne(t, rows, "--coll", "allreduce", "--comm", "1x8", "--sizes", "64M", "--nccl", release)
		if o.Row != row || (o.Policy.Algo == o.NCCL.Algo) != (row == 0) {
			t.Errorf("NCCL %s: %+v", release, o)
		}
		explain := []string{"explain", "allreduce", "64M", "--comm", "1x8", "--policy", rows, "--nccl", release}
		_, notes := tunefit(t, cli.ExitOK, explain...)
		if strings.Contains(notes, "NCCL 2.21.5 does not tell what they allow, NCCL decides") != (row == 0) {
			t.Errorf("NCCL %s: %s", release, notes)
		}
	}
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// Variables of NCCL's count in what it chooses by itself, or are named as not counted.
func TestVariablesCount(t *testing.T) {
	rows := testlib.File(t, "p.csv", "allgather,0,inf,ring,ll,2,1,8\n")
	args := []string{rows, "--coll", "allreduce", "--comm", "1x8", "--sizes", "64M"}
	topo := append(args, "--topo", filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml"))
	for _, test := range []struct{ name, value, want string }{
		{"NCCL_IB_HCA", "mlx5", "nvls/simple 16"},
		{"NCCL_NVLS_ENABLE", "0", "ring/simple 24"},
		{"NCCL_ALGO", "allreduce:tree", "tree/simple 24"},
		{"NCCL_MAX_CTAS", "6", "nvls/simple 6"},
	} {
		t.Setenv(test.name, test.value)
		for _, with := range [][]string{args, topo} {
			o, notes := showOne(t, with...)
			if got := o.NCCL.Cell.String() + " " + itoa(o.NCCL.Channels); got != test.want ||
				notes != "" {
				t.Errorf("%s=%s: %s, want %s; %s", test.name, test.value, got, test.want, notes)
			}
		}
		os.Unsetenv(test.name)
	}
	t.Setenv("NCCL_GRAPH_FILE", "/x.xml")
	if _, notes := showOne(t,
		args...); notes != "note: NCCL_GRAPH_FILE is set and does not count here: it gives the channels instead of "+
		"NCCL's search\n" {
		t.Error(notes)
	}
	t.Setenv("NCCL_PROTO", "ll256")
	if _, errs := tunefit(t, cli.ExitFailed, append([]string{"show"}, args...)...); !strings.Contains(errs,
		`NCCL_PROTO=ll256: unknown word "ll256"`) {
		t.Error(errs)
	}
}

// topo tuning counts the variables of a job.
func TestTuningCountsVariables(t *testing.T) {
	t.Setenv("NCCL_MAX_CTAS", "6")
	machine := filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml")
	if out, _ := tunefit(t, cli.ExitOK, "topo", "tuning", machine, "--nodes", "1", "--nccl",
		"2.31"); !strings.HasPrefix(out, "NCCL 2.31.2\n\ncomm ") || !strings.Contains(out, "\n1x8   6 ") {
		t.Error(out)
	}
}

func TestPolicyTestsNameARelease(t *testing.T) {
	rows := testlib.File(t, "p.csv", "allreduce,0,inf,ring,simple,24,2,16\n")
	tests := "tests:\n  - {name: x, collective: allreduce, nodes: 2, ranks: 16, size: 1M, expect: {channels: 24}}\n"
	pinned := testlib.File(t, "p_test.yaml", "policy: "+rows+"\nnccl: 2.30.7\n"+tests)
	tunefit(t, cli.ExitOK, "check", rows, "--tests", pinned)
	tunefit(t, cli.ExitFailed, "check", rows, "--nccl", "2.31.2", "--tests", pinned)
	open := testlib.File(t, "q_test.yaml", "policy: "+rows+"\n"+tests)
	tunefit(t, cli.ExitOK, "check", rows, "--tests", open, "--nccl", "2.28.9")
	tunefit(t, cli.ExitFailed, "check", rows, "--tests", open, "--nccl", "2.31.2")
	wrong := testlib.File(t, "r_test.yaml", "policy: "+rows+"\nnccl: 2.20\n"+tests)
	if _, errs := tunefit(t, cli.ExitFailed, "check", rows, "--tests", wrong); !strings.Contains(errs, "r_test.yaml:2:") ||
		!strings.Contains(errs, "2.21.5") {
		t.Error(errs)
	}
}

// The rows and the model of a sweep are for the minor version that was measured, as far as it is known. Another one
// gets its own choice, and whoever asks is told so.
func TestPoliciesAreForWhatWasMeasured(t *testing.T) {
	for _, test := range []struct {
		measured, madeWith, column string
		decided                    []string // releases that the policy is for
	}{
		{"2.28.9", "", "2.28", []string{"2.28.3", "2.28.9"}},
		{"", "", "", []string{"2.27.7", "2.28.9", "2.31.2"}},
		{"", "2.30.7", "2.30", []string{"2.30.3", "2.30.7"}},
		{"RCCL 2.27.7", "", "", []string{"2.28.9", "2.31.2"}},
		{"2.28.9", "RCCL 2.27.7", "", []string{"2.28.9"}},
	} {
		dir := t.TempDir()
		sweep, rows, model := sweepWith(t, test.measured), filepath.Join(dir, "p.csv"), filepath.Join(dir, "m.json")
		tunefit(t, cli.ExitOK, "fit", sweep, "-o", model, "--csv", rows, "--made-with", test.madeWith)
		text, err := os.ReadFile(rows)
		if err != nil {
			t.Fatal(err)
		}
		header, row := "# collective,min_bytes,", "allreduce,4096,16384,tree,ll,8,1,8,-1,-1\n"
		if test.column != "" {
			header, row = "\ncollective,min_bytes,", strings.TrimSpace(row)+","+test.column+"\n"
		}
		if !strings.Contains(string(text), header) || !strings.HasSuffix(string(text), row) {
			t.Errorf("%+v:\n%s", test, text)
		}
		tunefit(t, cli.ExitOK, "check", rows)
		out, _ := tunefit(t, cli.ExitOK, "check", rows, "--measured", sweep)
		if !strings.Contains(out, "allreduce 1x8") {
			t.Errorf("%+v: check says\n%s", test, out)
		}
		for _, release := range []string{"2.27.7", "2.28.3", "2.28.9", "2.30.3", "2.30.7", "2.31.2"} {
			is := slices.Contains(test.decided, release)
			if !is && test.column == "" {
				continue
			}
			ask := []string{"--json", "--coll", "allreduce", "--comm", "1x8", "--sizes", "8K", "--nccl", release}
			for by, files := range map[string][]string{"rows": {rows}, "model": {"--model", model}} {
				out, notes := tunefit(t, cli.ExitOK, append(append([]string{"show"}, files...), ask...)...)
				told := map[string]string{"rows": "1 row is for other releases of NCCL, and this is " + release,
					"model": "abstains (it is for NCCL " + test.column + ", and this is " + release + ")"}[by]
				if strings.Contains(out, `"algorithm": "tree"`) && strings.Contains(out, `"file": "`) != is ||
					strings.Contains(notes, told) == is {
					t.Errorf("%+v, %s asked as %s:\n%s%s", test, by, release, notes, out)
				}
			}
		}
	}
	for _, wrong := range []string{"new", "RCCL", "2.20.5"} {
		_, errs := tunefit(t, cli.ExitUsage, "fit", sweepWith(t, ""), "--made-with", wrong)
		if !strings.Contains(errs, "--made-with: ") || !strings.Contains(errs, `of RCCL is given as "RCCL 2.27.7"`) {
			t.Error(errs)
		}
	}
}

// check --measured judges rows by measurements of a later release, and says that they are not for it.
func TestEvalOfAnotherRelease(t *testing.T) {
	rows := testlib.File(t, "p.csv", "collective,min_bytes,algorithm,protocol,channels,nccl\nallreduce,0,tree,ll,8,2.28\n")
	for release, noted := range map[string]bool{"2.28.9": false, "2.31.2": true, "": false} {
		out, _ := tunefit(t, cli.ExitOK, "check", rows, "--measured", sweepWith(t, release), "--json")
		if !strings.Contains(strings.ReplaceAll(out, " ", ""), `"mean":1,`) {
			t.Errorf("NCCL %s:\n%s", release, out)
		}
		_, notes := tunefit(t, cli.ExitOK, "check", rows, "--measured", sweepWith(t, release))
		if strings.Contains(notes, "note: the decisions are for NCCL 2.28. With NCCL "+release) != noted {
			t.Errorf("NCCL %s: %s", release, notes)
		}
	}
}

// Where NCCL's estimates are for nodes of other numbers of ranks, PAT is offered as on the communicator that is asked
// about.
func TestPATOfTheCommunicatorAsked(t *testing.T) {
	file := testlib.File(t, "pat.csv", "allgather,0,inf,pat,simple,-1,-1,-1\n")
	for _, test := range []struct {
		comm, release, variable string
		offered                 bool
	}{
		{"4x1", "2.30.7", "", true},
		{"4x1", "2.31.2", "", true},
		{"4x1", "2.22.3", "", false},
		{"4x1", "2.30.7", "NCCL_PAT_ENABLE=0", false},
		{"4x1", "2.30.7", "NCCL_ALGO=ring", false},
		{"1x4", "2.31.2", "", false},
		{"4x4", "2.30.7", "", false},
		{"4x4", "2.31.2", "", true},
	} {
		t.Run(test.comm+" "+test.release+" "+test.variable, func(t *testing.T) {
			if name, value, ok := strings.Cut(test.variable, "="); ok {
				t.Setenv(name, value)
			}
			args := []string{"--comm", test.comm, "--nccl", test.release}
			o, _ := showOne(t, append(args, file, "--coll", "allgather", "--sizes", "1M")...)
			if (o.Row == 1) != test.offered || o.NCCL.Algo == nccl.AlgoPAT {
				t.Errorf("%+v", o)
			}
			args = append([]string{"explain", "allgather", "1M", "--policy", file}, args...)
			out, _ := tunefit(t, cli.ExitOK, args...)
			if strings.Contains(out, "is available here: pat") == test.offered {
				t.Errorf("%s", out)
			}
		})
	}
}

// A release that tells no names is asked without one, and it is said.
func TestNamesOfAReleaseWithoutThem(t *testing.T) {
	file := testlib.File(t, "named.csv", "collective,algorithm,protocol,comm_name\nallreduce,tree,ll,dp\n")
	for release, told := range map[string]bool{"2.26.6": false, "2.27.3": true} {
		args := []string{file, "--coll", "allreduce", "--comm", "2x8", "--sizes", "1M", "--comm-name", "dp", "--nccl",
			release}
		const note = "does not tell a communicator's name"
		o, notes := showOne(t, args...)
		if (o.Row == 2) != told || strings.Count(notes, note) == 1 == told {
			t.Errorf("NCCL %s: %+v\n%s", release, o, notes)
		}
		out, notes := tunefit(t, cli.ExitOK, "explain", "allreduce", "1M", "--comm", "2x8", "--policy", file,
			"--comm-name", "dp", "--nccl", release)
		if strings.Contains(out, "  named.csv:2  decides") != told || strings.Count(notes, note) == 1 == told {
			t.Errorf("NCCL %s: %s%s", release, out, notes)
		}
	}
}

// What only NCCL does is not said of a model of RCCL.
func TestShowModelOfRCCL(t *testing.T) {
	rows := testlib.File(t, "rows.csv", "allreduce,0,inf,ring,ll,60,-1,-1\n")
	for release, rccl := range map[string]bool{"2.31.2": false, "RCCL 2.27.7": true} {
		model := filepath.Join(t.TempDir(), "model.json")
		tunefit(t, cli.ExitOK, "fit", sweepWith(t, ""), "-o", model, "--made-with", release)
		const raised, whose = "takes a tuner's", ".json was measured with RCCL 2.27.7, whose own choices are not known"
		out, notes := tunefit(t, cli.ExitOK, "show", rows, "--model", model, "--coll", "allreduce", "--comm", "1x8",
			"--nccl", "2.31.2")
		title := map[bool]string{false: "NCCL 2.31.2's choice", true: "RCCL 2.27.7's choice"}[rccl]
		if strings.Contains(notes, raised) == rccl || strings.Contains(notes, whose) != rccl ||
			!strings.Contains(out, title) {
			t.Errorf("%s: %s%s", release, out, notes)
		}
		out, notes = tunefit(t, cli.ExitOK, "explain", "allreduce", "8K", "--comm", "1x8", "--policy", rows,
			"--model", model, "--nccl", "2.31.2")
		if strings.Contains(out, raised) == rccl || strings.Contains(notes, whose) != rccl {
			t.Errorf("%s: %s%s", release, out, notes)
		}
	}
}

// A policy that fit writes says that it was measured with RCCL, and show asks it by RCCL's rules.
func TestShowPolicyOfRCCL(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "rows.csv")
	tunefit(t, cli.ExitOK, "fit", sweepWith(t, ""), "--csv", rows, "--made-with", "RCCL 2.27.7")
	out, notes := tunefit(t, cli.ExitOK, "show", rows, "--coll", "allreduce", "--comm", "1x8", "--nccl", "2.31.2")
	if !strings.Contains(notes, "rows.csv was measured with RCCL 2.27.7, whose own choices are not in it: those shown "+
		"are NCCL 2.31.2's") || strings.Contains(notes, "takes a tuner's") || !strings.Contains(out, "NCCL 2.31.2's choice") {
		t.Errorf("%s%s", out, notes)
	}
}
