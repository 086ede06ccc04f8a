package tuner

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

const home = "0123456789abcdef"

// ringModel takes ring/ll with 4 channels for half of the time of tree/ll, which NCCL
// chooses: AllReduce on 8 ranks of 1 node, 1 KiB to 1 MiB.
func ringModel(change func(*model.File)) string {
	f := &model.File{Format: model.Format, Version: model.Version, CurveSets: []model.CurveSet{{
		Coll: "allreduce", Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Noise: 0.01,
		Curves: []model.Curve{
			{Algo: "tree", Proto: "ll", Channels: 2,
				Measured: [][2]float64{{1 << 10, 20}, {8 << 10, 30.32}, {1 << 20, 80}}},
			{Algo: "ring", Proto: "ll", Channels: 4,
				Measured: [][2]float64{{1 << 10, 10}, {8 << 10, 15.16}, {1 << 20, 40}}},
		},
	}}}
	if change != nil {
		change(f)
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func onMachine(fingerprint string) func(*model.File) {
	return func(f *model.File) {
		f.Provenance.Topology = &topo.Machine{Fingerprint: topo.Fingerprint(fingerprint)}
	}
}

// newOn returns a process on a machine; it counts how often that was looked at.
func newOn(fingerprint string, getenv func(string) string) (p *Plugin, looked *int) {
	p, looked = New(getenv), new(int)
	p.loader.Find = func(func(string) string) (*topo.Machine, detect.Source, error) {
		*looked++
		switch fingerprint {
		case "":
			return nil, detect.Source{}, errors.New("no GPU")
		case "panic":
			panic("odd machine")
		}
		f, err := topo.ParseFingerprint(fingerprint)
		return &topo.Machine{Fingerprint: f, Summary: topo.Summary{GPUs: 8}}, detect.Source{}, err
	}
	return p, looked
}

var treeIsCheaper = nccl.Costs{Micros: []float32{20, 50, 50, 30, 50, 50}, NumProto: 3}

func decide(t *testing.T, c *Communicator, bytes uint64) policy.Decision {
	t.Helper()
	if c.NeverDecides() {
		return policy.Decision{Config: nccl.Config{Cell: nccl.Cell{Algo: -1}}}
	}
	d, _ := c.Decide(policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: bytes}, PipeOps: 1,
		Costs: treeIsCheaper})
	return d
}

func TestModelDecidesBehindRows(t *testing.T) {
	dir := t.TempDir()
	rows, model := filepath.Join(dir, "p.csv"), filepath.Join(dir, "m.json")
	write(t, rows, "allreduce,2048,4095,tree,ll128,1,1,8\nallreduce,4096,8191,default,-1,-1,1,8\n")
	write(t, model, ringModel(nil))
	var r recorder
	c, err := New(env(EnvConfigFile, rows, EnvModelFile, model, EnvLog, "decisions")).Open(eightRanks, r.log())
	if err != nil {
		t.Fatal(err)
	}
	for _, bytes := range []uint64{2048, 4096, 8192, 2 << 20} {
		decide(t, c, bytes)
	}
	c.Close()
	prefix := "INFO TUNER/Go: decision comm=0x1 coll=allreduce size="
	for i, want := range []string{
		"INFO TUNER/Go: start library=" + Release + " comm=0x1 ranks=8 nodes=1 abi=6 policy=" + rows + " rows=2 model=" +
			model + " version=",
		`INFO TUNER/Go: available comm=0x1 coll=allreduce cells="tree/ll tree/ll128 tree/simple ring/ll ring/ll128 ring/simple"`,
		prefix + "2KiB choice=tree/ll128 channels=1 default=tree/ll by=" + rows + ":1 pipe_ops=1",
		prefix + "4KiB choice=tree/ll default=tree/ll by=" + rows + ":2 pipe_ops=1",
		prefix + "8KiB choice=ring/ll channels=4 default=tree/ll by=\"model " + model + "\" pipe_ops=1 " +
			`because="15.16 us expected, 50.0 % less than NCCL's (uncertain by 1.4 %)"`,
		prefix + "2MiB choice=tree/ll default=tree/ll by=NCCL pipe_ops=1 " +
			`because="no row matches, the model abstains: the size is outside those measured"`,
	} {
		if i >= len(r.lines) || !strings.HasPrefix(r.lines[i], want) {
			t.Errorf("line %d is not %s\n%s", i+1, want, strings.Join(r.lines, "\n"))
			break
		}
	}
}

// What the machine is decides whether a model is used. It is looked at once, and only
// if a model asks for it.
func TestModelAndMachine(t *testing.T) {
	const other = "1111111111111111"
	for name, test := range map[string]struct {
		model, here string
		used        bool
		says        string
	}{
		"no machine named": {"", home, true, ""},
		"same":             {home, home, true, "INFO TUNER/Go: the model M was measured on this kind of machine"},
		"other": {home, other, false,
			"WARN TUNER/Go: the model M was measured on another kind of machine; it is not used"},
		"unknown": {home, "", false, "WARN TUNER/Go: the topology of this machine is not known: no GPU"},
		"defect": {home, "panic", false,
			"WARN TUNER/Go: the topology of this machine is not known: a defect in reading it: odd machine"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "m.json")
			change := func(*model.File) {}
			if test.model != "" {
				change = onMachine(test.model)
			}
			write(t, file, ringModel(change))
			var r recorder
			p, looked := newOn(test.here, env(EnvModelFile, file))
			for _, log := range []telemetry.Log{{}, r.log(), r.log()} {
				c, err := p.Open(eightRanks, log)
				if err != nil {
					t.Fatal(err)
				}
				if used := decide(t, c, 8192).Algo == nccl.AlgoRing; used != test.used {
					t.Errorf("used: %v", used)
				}
			}
			says := strings.Replace(test.says, " M ", " "+file+" ", 1)
			if says != "" && r.count(says) != 1 {
				t.Errorf("not said once: %s\n%s", says, strings.Join(r.lines, "\n"))
			}
			if want := len(test.says) > 0; *looked > 1 || *looked == 1 != want {
				t.Errorf("looked at the machine %d times", *looked)
			}
		})
	}
}

func TestBadModel(t *testing.T) {
	dir := t.TempDir()
	rows, file, bad := filepath.Join(dir, "p.csv"), filepath.Join(dir, "m.json"), filepath.Join(dir, "bad.json")
	write(t, rows, "allreduce,2048,4095,ring,ll128,1,1,8\n")
	write(t, file, ringModel(nil))
	write(t, bad, ringModel(func(f *model.File) {
		f.CurveSets[0].Curves[0].Algo = "treee"
		f.CurveSets[0].Curves[1].Channels = 65
	}))
	write(t, filepath.Join(dir, "faulty.csv"), "allreduce,0,inf,rign,ll\n")
	for name, test := range map[string]struct {
		rows, model string
		strict      bool      // fails
		atRow       nccl.Algo // what is chosen where a row is, and
		elsewhere   nccl.Algo
		says        []string
	}{
		"bad model": {rows, bad, true, 1, 0, []string{
			"WARN TUNER/Go: " + bad + " has 2 problems; no model is used:",
			"WARN TUNER/Go: " + bad + `: groups[0].curves[0].algorithm: unknown algorithm "treee" (did you mean "tree"`,
			"WARN TUNER/Go: " + bad + ": groups[0].curves[1].channels: 65 (allowed: 0 to 64)",
		}},
		"no model there": {rows, dir + "/absent", true, 1, 0,
			[]string{"WARN TUNER/Go: NCCL_TUNER_MODEL_FILE=" + dir +
				"/absent: no such file or directory; no model is used"}},
		"faulty rows": {dir + "/faulty.csv", file, true, -1, -1,
			[]string{"INFO TUNER/Go: " + file + " is not used either"}},
		"model alone": {"", file, false, 1, 1, nil},
		"both":        {rows, file, false, 1, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			variables := []string{EnvConfigFile, test.rows, EnvModelFile, test.model}
			var r recorder
			c, err := New(env(variables...)).Open(eightRanks, r.log())
			if err != nil {
				t.Fatal(err)
			}
			if a, b := decide(t, c, 2048).Algo, decide(t, c, 8192).Algo; a != test.atRow || b != test.elsewhere {
				t.Errorf("chosen: %d and %d", a, b)
			}
			for _, says := range test.says {
				if r.count(says) != 1 {
					t.Errorf("not said once: %s\n%s", says, strings.Join(r.lines, "\n"))
				}
			}
			if _, err := New(env(append(variables, EnvStrict, "1")...)).Open(eightRanks,
				telemetry.Log{}); (err != nil) != test.strict {
				t.Errorf("strict: %v", err)
			}
		})
	}
}

// What only a communicator or a machine tells reaches the conditions of rows.
func TestConditionsSeeCommAndMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, "collective,max_bytes,algorithm,protocol,when\nallreduce,4095,ring,ll,nvl_domains == 2\n"+
		"allreduce,inf,ring,ll128,topo.gpus == 8\nallreduce,inf,ring,simple,bytes / (bytes - 8192) > 0\n")
	for _, test := range []struct {
		here         string
		domains      int
		small, large nccl.Proto
		warns        string
	}{
		{home, 2, nccl.ProtoLL, nccl.ProtoLL128, ""},
		{home, 1, nccl.ProtoLL128, nccl.ProtoLL128, ""},
		{"", 2, nccl.ProtoLL, nccl.ProtoLL,
			`WARN TUNER/Go: no_effect comm=0x1 why=topology is="1 row is for this communicator by the machine's topology, ` +
				`which is not known: without effect"`},
	} {
		p, looked := newOn(test.here, env(EnvConfigFile, file))
		var r recorder
		for range 2 {
			info := eightRanks
			info.NVLDomains = test.domains
			c, err := p.Open(info, r.log())
			if err != nil {
				t.Fatal(err)
			}
			if small, large := decide(t, c, 2048).Proto, decide(t, c, 8192).Proto; small != test.small ||
				large != test.large {
				t.Errorf("%+v: %d and %d", test, small, large)
			}
		}
		if *looked != 1 {
			t.Errorf("looked at the machine %d times", *looked)
		}
		if n := r.count(test.warns); test.warns != "" && n != 2 {
			t.Errorf("%q", r.lines)
		}
		if n := r.count(": " + file + ":4:5: "); test.here == "" && n != 1 {
			t.Errorf("a condition that fails is reported %d times: %q", n, r.lines)
		}
	}
}

// The version that ranks compare is of all that decides.
func TestVersionCoversTheModel(t *testing.T) {
	dir := t.TempDir()
	rows := filepath.Join(dir, "p.csv")
	write(t, rows, "allreduce,2048,4095,ring,ll128,1,1,8\n")
	versions := map[identity.Digest]string{}
	for name, change := range map[string]func(*model.File){
		"none": nil, "as is": func(*model.File) {}, "slower": func(f *model.File) {
			f.CurveSets[0].Curves[1].Measured[0][1] = 11
		},
	} {
		s := policyfile.Settings{Policy: policyfile.Named{Path: rows}}
		if change != nil {
			s.Model.Path = filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			write(t, s.Model.Path, ringModel(change))
		}
		v, err := New(env()).loader.Load(s, telemetry.Log{})
		if err != nil || v.Faulty {
			t.Fatal(name, err)
		}
		if other, taken := versions[v.Engine().Digest]; taken {
			t.Errorf("%s and %s have one version", name, other)
		}
		versions[v.Engine().Digest] = name
	}
}

func TestCommunicatorOfOneRank(t *testing.T) {
	info := CommInfo{Comm: nccl.Comm{Nodes: 1, Ranks: 1}, ABI: 6}
	if got := info.String(); got != "communicator of 1 rank on 1 node (ABI v6)" {
		t.Error(got)
	}
}
