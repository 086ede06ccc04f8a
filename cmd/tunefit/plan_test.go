package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

const simulatedSweep = "../../configs/sweeps/simulated-hgx-h100-2n.csv"

// A cluster that has exactly what a sweep measured is swept as planned, until the
// plan says that it is enough: what it found is what the whole sweep finds.
func TestPlanToTheEnd(t *testing.T) {
	whole, err := bench.ReadFile(simulatedSweep, bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	byConfig := map[nccl.Config][]bench.Sample{}
	least := map[uint64]float64{}
	for _, s := range whole.Samples {
		if s.Coll.String() != "allreduce" {
			continue
		}
		c := nccl.Config{Cell: nccl.NoCell}
		if s.Selection != bench.SelectionDefault {
			c = s.Config
			if least[s.Bytes] == 0 || s.Micros < least[s.Bytes] {
				least[s.Bytes] = s.Micros
			}
		}
		byConfig[c] = append(byConfig[c], s)
	}
	file := filepath.Join(t.TempDir(), "sweep.csv")
	args := []string{"plan", "--json", "--coll", "allreduce", "--comm", "2x8", "--channels", "1,2,4,8,16"}
	var seen, failed []bench.Sample
	starts := 0
	for round := 0; ; round++ {
		if round > 20 {
			t.Fatal("the plan does not end")
		}
		planned := slices.Clone(args)
		if len(seen) > 0 {
			planned = append(planned, file)
		}
		out, _ := tunefit(t, cli.ExitOK, planned...)
		var p planJSON
		if err := json.Unmarshal([]byte(out), &p); err != nil {
			t.Fatal(err)
		}
		if p.Done != (len(p.Runs) == 0) || p.Why == "" {
			t.Fatalf("%+v", p)
		}
		if p.Done {
			break
		}
		for _, r := range p.Runs {
			starts++
			parts := r.Configurations
			if parts == nil {
				parts = []choiceJSON{{nccl.Config{Cell: nccl.NoCell}, r.Sizes}}
			}
			for _, part := range parts {
				c, got := part.Config, 0
				for _, s := range byConfig[c] {
					if slices.Contains(part.Sizes, s.Bytes) {
						seen, got = append(seen, s), got+1
					}
				}
				if got == 0 { // as import writes down what did not run
					for _, b := range append(part.Sizes, 0) {
						failed = append(failed, bench.Sample{
							Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: b}, Comm: nccl.Comm{Nodes: 2, Ranks: 16},
							Config: c, Selection: bench.SelectionForced,
						})
					}
				}
			}
		}
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := bench.WriteTidy(f, seen, failed); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if starts >= len(byConfig) {
		t.Errorf("%d runs were planned where the whole sweep has %d: nothing was saved", starts, len(byConfig))
	}
	found := map[uint64]float64{}
	for _, s := range seen {
		if s.Selection != bench.SelectionDefault && (found[s.Bytes] == 0 || s.Micros < found[s.Bytes]) {
			found[s.Bytes] = s.Micros
		}
	}
	for b, us := range least {
		if found[b] == 0 || found[b] > 1.1*us {
			t.Errorf("at %d bytes %.1f us was found, %.1f is possible", b, found[b], us)
		}
	}
}

// The name of each log tells import what ran, and the script does not repeat
// itself.
func TestPlannedLogsAreUnderstood(t *testing.T) {
	dir := t.TempDir()
	f := planFlags{}
	for _, r := range plannedRuns {
		for _, command := range f.commands(perfrun.Of(r.key, r.run), true).Commands {
			_, log, _ := strings.Cut(strings.ReplaceAll(command, ">>", ">"), "> ")
			log, isPerf := strings.CutSuffix(log, " 2>&1")
			if !isPerf {
				continue
			}
			const text = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n" +
				"     1048576        262144     float     sum      -1    61.90   16.94   29.65      0\n"
			file := filepath.Join(dir, log)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := bench.ReadFile(file, bench.Options{})
			if err != nil || len(got.Samples) != 1 {
				t.Fatalf("%s: %v %+v", log, err, got)
			}
			s := got.Samples[0]
			if s.Coll != r.key.Coll || s.Nodes != r.key.Nodes || s.Ranks != r.key.Ranks ||
				(s.Selection == bench.SelectionDefault) != (r.run.Configs == nil) {
				t.Errorf("%s is read as %+v", log, s)
			}
			if got := (s.Config); r.run.Configs != nil && got != r.run.Configs[0] {
				t.Errorf("%s is read as %v, want %v", log, got, r.run.Configs[0])
			}
		}
	}
}

func planned(t *testing.T, args ...string) (all []planJSON) {
	t.Helper()
	out, _ := tunefit(t, cli.ExitOK, append([]string{"plan", "--json"}, args...)...)
	if !strings.HasPrefix(out, "[") {
		out = "[" + out + "]"
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPlanSeveralAtOnce(t *testing.T) {
	var got []string
	for _, p := range planned(t, "--coll", "allreduce,broadcast", "--comm", "1x8,2x8") {
		got = append(got, fmt.Sprintf("%s/%d/%d/%d", p.Coll, p.Nodes, p.Ranks, len(p.Runs)))
	}
	if want := "[allreduce/1/8/1 allreduce/2/16/1 broadcast/1/8/1 broadcast/2/16/1]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if all := planned(t, simulatedSweep); len(all) < 2 {
		t.Errorf("of a sweep of several collectives %d are planned", len(all))
	}
}

// What the machine does not have is not planned: an H100 node has no NVLSTree for itself, and no more channels than
// NCCL finds.
func TestPlanWithTopology(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sweep.csv")
	const sweep = "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us\n" +
		"allreduce,1048576,,,,1,8,default,50\nallreduce,2097152,,,,1,8,default,60\n"
	if err := os.WriteFile(file, []byte(sweep), 0o644); err != nil {
		t.Fatal(err)
	}
	configs := func(args ...string) (all []string) {
		for _, r := range planned(t, append([]string{file, "--channels", "1,16,64"}, args...)...)[0].Runs {
			for _, c := range r.Configurations {
				all = append(all, fmt.Sprintf("%s/%d", c.Cell, c.Channels))
			}
		}
		return all
	}
	if all := configs(); !slices.Contains(all, "ring/ll/64") || !slices.Contains(all, "nvls_tree/simple/64") {
		t.Errorf("without a topology: %v", all)
	}
	all := configs("--topo", "../../configs/topo/dgx-h100.xml", "--nccl", "2.30.7")
	if !slices.Contains(all, "nvls/simple/16") || !slices.Contains(all, "ring/ll/24") ||
		slices.ContainsFunc(all, func(c string) bool {
			return strings.Contains(c, "nvls_tree") ||
				strings.HasSuffix(c, "/64")
		}) {
		t.Errorf("with the topology: %v", all)
	}
	const measured = "../../docs/measured/mi355x-allreduce.csv" // with up to 64 channels
	for _, r := range planned(t, "--verify", "--topo", "../../configs/topo/dgx-a100.xml", "--sizes", "1M", "--comm",
		"1x8", measured)[0].Runs {
		for _, c := range r.Configurations {
			if c.Channels > 24 {
				t.Errorf("verified would be %+v, which the machine does not have", c)
			}
		}
	}
}

// A script runs wherever the library is.
func TestPlanQuotesTheLibrary(t *testing.T) {
	library := testlib.File(t, "it's a library.so", "")
	for _, r := range planned(t, "--coll", "allreduce", "--comm", "1x8", "--plugin", library, simulatedSweep)[0].Runs {
		for _, command := range r.Commands {
			if strings.Contains(command, "NCCL_TUNER_PLUGIN=") &&
				!strings.Contains(command, "NCCL_TUNER_PLUGIN="+cli.ShellWord(library)+" ") {
				t.Errorf("%s", command)
			}
		}
	}
}

// What failed is known from its log and from the sweep that import makes of it.
func TestPlanLeavesOutWhatFailed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sweep := write("default.csv", "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us\n"+
		"allreduce,1048576,,,,1,8,default,50\n")
	log := write("allreduce-1n-8r-nvls-simple-32ch.log", "all_reduce.cu:1: Test NCCL failure\n")
	imported := filepath.Join(dir, "sweep.csv")
	tunefit(t, cli.ExitOK, "import", sweep, log, "-o", imported)
	for name, files := range map[string][]string{"log": {sweep, log}, "sweep": {imported}} {
		for _, r := range planned(t, files...)[0].Runs {
			for _, c := range r.Configurations {
				if c.Algo == nccl.AlgoNVLS && c.Channels == 32 {
					t.Errorf("the %s says that it failed, and it is planned: %v", name, r)
				}
			}
		}
	}
}

// What a sweep chooses is measured once more, in turns with the default, in few starts; fitted together, that decides.
func TestPlanVerify(t *testing.T) {
	whole, err := bench.ReadFile(simulatedSweep, bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	samples := slices.DeleteFunc(whole.Samples, func(s bench.Sample) bool { return s.Coll != nccl.CollAllReduce })
	p := planned(t, "--verify", "--coll", "allreduce", "--repetitions", "3", simulatedSweep)[0]
	if len(p.Runs) != 3*4+1 || p.Done {
		t.Fatalf("%d starts, want 13: the default and three policies, three times, and the default", len(p.Runs))
	}
	for i, r := range p.Runs {
		isDefault := i%4 == 0
		last := r.Commands[len(r.Commands)-1]
		if isDefault != (len(r.Configurations) == 0) || len(r.Commands) > 3 ||
			!strings.Contains(last, fmt.Sprintf("verify-rep%d-", 1+i/4)) ||
			!strings.Contains(last, " all_reduce_perf -b ") {
			t.Errorf("run %d: %+v", i, r)
		}
		for _, s := range whole.Samples {
			if s.Coll != nccl.CollAllReduce || s.InPlace {
				continue
			}
			is := isDefault && s.Selection == bench.SelectionDefault && slices.Contains(r.Sizes, s.Bytes)
			for _, c := range r.Configurations {
				is = is || s.Selection == bench.SelectionForced && s.Cell == c.Cell && s.Channels == c.Channels &&
					slices.Contains(c.Sizes, s.Bytes)
			}
			if is {
				s.Source, s.Verify = fmt.Sprintf("simulated:verify:rep%d", 1+i/4), true
				samples = append(samples, s)
			}
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "verified.csv")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := bench.WriteTidy(f, samples); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if p := planned(t, "--verify", file)[0]; !p.Done {
		t.Errorf("all was verified, and it goes on: %+v", p)
	}
	rows := filepath.Join(dir, "tuner.csv")
	tunefit(t, cli.ExitOK, "fit", file, "-o", filepath.Join(dir, "model.json"), "--csv", rows)
	if text, err := os.ReadFile(rows); err != nil || !strings.Contains(string(text), "# verified: ") {
		t.Errorf("%v, no row is verified:\n%s", err, text)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "model.json")); err != nil ||
		!strings.Contains(string(text), `"verified": [`) {
		t.Errorf("%v, the model does not say what is verified", err)
	}
}

func TestPlanBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		args string
		want string
		code int
	}{
		"nothing":          {"", "needed: a sweep, or --coll and --comm", cli.ExitUsage},
		"other collective": {simulatedSweep + " --coll reduce", "measured: allgather 2x8", cli.ExitUsage},
		"other machine": {"--coll allreduce --comm 1x4 --topo ../../configs/topo/dgx-h100.xml",
			"communicators of 8 ranks a node", cli.ExitUsage},
		"not on the machine": {"--coll allreduce --comm 1x8 --algos nvls_tree --topo ../../configs/topo/dgx-h100.xml",
			"have none of these", cli.ExitUsage},
		"nothing measured": {"--verify --sizes 64G-128G " + simulatedSweep,
			"no configuration of allgather 2x8 was measured at any of them", cli.ExitUsage},
		"nothing to verify": {"--verify --coll allreduce --comm 1x8",
			"no configuration of allreduce 1x8 was measured", cli.ExitUsage},
		"repetitions":       {"--verify --repetitions 0 " + simulatedSweep, "allowed: 1 to 100", cli.ExitUsage},
		"no such topology":  {"--coll allreduce --comm 1x8 --topo missing.xml", "no such file", cli.ExitFailed},
		"unknown algorithm": {"--coll allreduce --comm 1x8 --algos rign", `did you mean "ring"`, cli.ExitUsage},
		"no such pair":      {"--coll broadcast --comm 1x8 --algos tree", "NCCL has none", cli.ExitUsage},
		"channels":          {"--coll allreduce --comm 1x8 --channels 0", "allowed: 1 to 64", cli.ExitUsage},
		"skip":              {"--coll allreduce --comm 1x8 --skip ring", "ALGORITHM/PROTOCOL", cli.ExitUsage},
		"skip channels":     {"--coll allreduce --comm 1x8 --skip ring/ll/x", "allowed: 1 to 64", cli.ExitUsage},
		"no such file":      {"missing.csv", "no such file", cli.ExitFailed},
		"sizes not measured": {simulatedSweep + " --coll allreduce --sizes 2G-4G", "not measured at any",
			cli.ExitUsage},
		"not a communicator":  {"--coll allreduce --comm 8", "NODESxRANKS_PER_NODE", cli.ExitUsage},
		"not a sweep":         {"main.go", "no measurements in it", cli.ExitFailed},
		"other communicator":  {simulatedSweep + " --coll allreduce --comm 4x8", "", cli.ExitOK},
		"sizes from the flag": {"--coll allreduce --comm 1x8 --sizes 1M,3M", "", cli.ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := tunefit(t, test.code, append([]string{"plan"}, strings.Fields(test.args)...)...)
			if !strings.Contains(errs, test.want) {
				t.Errorf("got %q, want %q", errs, test.want)
			}
		})
	}
}

// plannedRuns are one run of each algorithm, and the default.
var plannedRuns = func() (all []plannedRun) {
	key := fit.Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 2, Ranks: 16}}
	all = append(all, plannedRun{key, fit.Run{Sizes: []uint64{1 << 20}}})
	for algo := range nccl.AlgoPAT + 1 {
		family := nccl.Cell{Algo: algo, Proto: nccl.ProtoSimple}
		if algo == nccl.AlgoRing {
			family.Proto = nccl.ProtoLL128
		}
		for coll := range nccl.Coll(nccl.NumColls) {
			if nccl.Offers(coll, family) {
				key.Coll = coll
			}
		}
		all = append(all, plannedRun{key, fit.RunOf(nccl.Config{Cell: family, Channels: 1 + 3*int(algo)},
			[]uint64{1 << 20})})
	}
	return all
}()

type plannedRun struct {
	key fit.Key
	run fit.Run
}
