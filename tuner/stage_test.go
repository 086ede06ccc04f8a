package tuner

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// What another rank proposes is compiled, or refused with the reason; a defect in that refuses the edit, and
// does not end the job.
func TestStage(t *testing.T) {
	bundle := func(rows string) []byte {
		return policyfile.Bundle{Policy: policyfile.Source{Name: "p.csv", Text: []byte(rows)}}.Encode()
	}
	for _, c := range []struct {
		name    string
		content []byte
		err     string
	}{
		{"rows", bundle(rows(7)), ""},
		{"no bundle", []byte("allreduce,0,inf,ring,ll,1,-1,-1\n"), "no bundle of policy files"},
		{"cut", bundle(rows(7))[:len(bundle(rows(7)))-5], "does not have the length it says"},
		{"bad rows", bundle("allreduce,0,inf,rign,ll,1,-1,-1\nallreduce,0,inf,ring,ll,999,-1,-1\n"),
			`p.csv:1:4: unknown algorithm "rign" (did you mean "ring"`},
		{"a defect", bundle(rows(7)), "a defect in the plugin: runtime error: "},
	} {
		p := New(env())
		comm := &Communicator{plugin: p, info: eightRanks, metrics: p.exporter.New("", nil)}
		if c.name == "a defect" {
			comm.plugin = nil
		}
		s, err := comm.stage(c.content, agree.DigestOf(c.content), agree.Ranks{})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) || s != nil {
				t.Errorf("%s: %v, %v; want %q", c.name, s, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		default:
			q := policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1 << 20}, PipeOps: 1,
				Costs: treeIsCheaper}
			if a := s.(*snapshot).view.Decide(q); a.Channels != 7 {
				t.Errorf("%s: it decides %+v", c.name, a)
			}
		}
	}
}

// A communicator that neither rows nor model are for is told so, with the reason.
func TestNothingForACommunicator(t *testing.T) {
	dir := t.TempDir()
	rows, model := filepath.Join(dir, "p.csv"), filepath.Join(dir, "m.json")
	write(t, rows, "allreduce,0,inf,tree,ll128,1,2,16\n")
	write(t, model, ringModel(nil))
	var r recorder
	info := eightRanks
	info.Ranks = 4
	if c, err := New(env(EnvConfigFile, rows, EnvModelFile, model)).Open(info, r.log()); err != nil || !c.NeverDecides() {
		t.Errorf("%+v, %v", c, err)
	}
	if want := "no row of " + rows + " is for it, the model " + model +
		" abstains (another number of ranks per node was measured)\""; r.count(want) != 1 {
		t.Errorf("not said: %s\n%s", want, strings.Join(r.lines, "\n"))
	}
}

// What is wrong in the environment can be found out without NCCL.
func TestCheckSettings(t *testing.T) {
	if problems := CheckSettings(env(EnvStrict, "1", EnvReload, "live", EnvStallLimit, "30", EnvLog,
		"decisions")); problems != nil {
		t.Errorf("%q", problems)
	}
	got := CheckSettings(env(EnvStrict, "yes", EnvReload, "often", EnvStallLimit, "-1", EnvLog, "all"))
	want := []string{EnvStrict + `="yes"`, EnvReload + `="often"`, EnvStallLimit + `="-1"`, EnvLog + `="all"`}
	for i, w := range want {
		if len(got) != len(want) || !strings.HasPrefix(got[i], w+" is not understood (allowed: ") {
			t.Fatalf("%q", got)
		}
	}
}
