package tuner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// NCCL_TUNER_DETERMINISTIC=1 refuses what could change sums, says so, and fails init with NCCL_TUNER_STRICT=1.
func TestDeterministicRefuses(t *testing.T) {
	dir := t.TempDir()
	good, sized, model := filepath.Join(dir, "good.csv"), filepath.Join(dir, "sized.csv"), filepath.Join(dir, "m.json")
	write(t, good, "allreduce,0,inf,tree,simple,1,-1,-1\n")
	write(t, sized, "allreduce,0,65536,tree,ll,1,-1,-1\nreduce,0,inf,ring,simple,-1,-1,-1\n")
	text, err := os.ReadFile("../policy/testdata/model.json")
	if err != nil {
		t.Fatal(err)
	}
	write(t, model, string(text))
	const turns = " is refused under NCCL_TUNER_DETERMINISTIC=1: versions that take turns change the last bits of sums"
	for _, c := range []struct {
		name    string
		env     []string
		says    []string // each once; nil: nothing is refused
		decides bool
	}{
		{"a policy that keeps to it", []string{EnvConfigFile, good}, nil, true},
		{"edits off by themselves", []string{EnvConfigFile, good, EnvReload, "off"}, nil, true},
		{"a comparison", []string{EnvConfigFile, good, EnvCompare, "nccl"},
			[]string{"WARN TUNER/Go: NCCL_TUNER_COMPARE=nccl" + turns}, true},
		{"a canary", []string{EnvConfigFile, good, EnvCanary, "1"},
			[]string{"WARN TUNER/Go: NCCL_TUNER_CANARY=1" + turns}, true},
		{"learning", []string{EnvConfigFile, good, EnvLearn, dir},
			[]string{"WARN TUNER/Go: NCCL_TUNER_LEARN=" + dir + turns}, true},
		{"edits", []string{EnvConfigFile, good, EnvReload, "live"},
			[]string{"NCCL_TUNER_RELOAD=live is refused under"}, true},
		{"edits at any price", []string{EnvConfigFile, good, EnvReload, "uniform"},
			[]string{"NCCL_TUNER_RELOAD=uniform is refused under"}, true},
		{"edits between communicators", []string{EnvConfigFile, good, EnvReload, "new"},
			[]string{"NCCL_TUNER_RELOAD=new is refused under"}, true},
		{"rows by size", []string{EnvConfigFile, sized}, []string{
			"WARN TUNER/Go: " + sized + " has 2 problems under NCCL_TUNER_DETERMINISTIC=1; no policy is used:",
			"WARN TUNER/Go: " + sized + ":1:3: the row is for 0 - 64KiB only",
			"WARN TUNER/Go: " + sized + ":2:6: the row leaves channels to NCCL"}, false},
		{"a model", []string{EnvModelFile, model}, []string{"WARN TUNER/Go: " + model + " has 1 problem under",
			"WARN TUNER/Go: " + model + ": a model chooses by the size of the call"}, false},
		{"a model beside a policy", []string{EnvConfigFile, good, EnvModelFile, model},
			[]string{model + ": a model chooses by the size of the call"}, true},
		{"a value that is none", []string{EnvConfigFile, sized, EnvDeterministic, "yes"}, []string{
			`NCCL_TUNER_DETERMINISTIC="yes" is not understood (allowed: 0, 1)`, "has 2 problems under"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log recorder
			vars := append(c.env, EnvDeterministic, "1")
			info := eightRanks
			info.Counter = &agree.Counter{}
			comm, err := New(env(vars...)).Open(info, log.log())
			if err != nil {
				t.Fatal(err)
			}
			defer comm.Close()
			for _, says := range c.says {
				if log.count(says) != 1 {
					t.Errorf("%q is not said once: %s", says, strings.Join(log.lines, "\n"))
				}
			}
			if c.says == nil && log.count("WARN") > 0 {
				t.Errorf("it warns: %s", strings.Join(log.lines, "\n"))
			}
			if comm.NeverDecides() == c.decides {
				t.Errorf("decides: %v, want %v", !comm.NeverDecides(), c.decides)
			}
			if comm.member != nil || comm.unchangeable() != "deterministic" || comm.settings.compares() {
				t.Errorf("it can change: %q, %+v", comm.unchangeable(), comm.settings)
			}
			strict, err := New(env(append(vars, EnvStrict, "1")...)).Open(info, telemetry.Log{})
			if (err != nil) != (c.says != nil) {
				t.Errorf("strict: %v", err)
			}
			if err == nil {
				strict.Close()
			}
		})
	}
}

// A process stays with what it read first: an edit reaches no communicator of it, not those created later either.
func TestDeterministicKeepsTheFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, "allreduce,0,inf,tree,simple,1,-1,-1\n")
	p := New(env(EnvConfigFile, file, EnvDeterministic, "1"))
	open := func() *Communicator {
		c, err := p.Open(eightRanks, telemetry.Log{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	first := open()
	write(t, file, "allreduce,0,inf,ring,simple,2,-1,-1\n")
	q := policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1}, PipeOps: 1,
		Costs: nccl.Costs{Micros: []float32{5, 5, 5, 5, 5, 5}, NumProto: 3}}
	for _, c := range []*Communicator{first, open()} {
		if d, _ := c.Decide(q); d.Config.String() != "tree/simple 1 ch" {
			t.Error(d.Config)
		}
	}
}
