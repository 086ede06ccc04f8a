package tuner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// learned.csv and evidence, as somebody may have changed them: a communicator starts on its own version or on one with
// rows that compile, and says which line of the file is wrong.
func FuzzLearnedFiles(f *testing.F) {
	f.Add(learnedHeader+"allreduce,0,9,tree,ll,,2,16,,topo.fingerprint == '5d1f0c2a9be47360'\n", `{"format":"nccl-tuner-go learning","version":3,"nccl":"2.30.7",`+
		`"nodes":2,"ranks":16,"state":"learned","factors":[{"collective":"allreduce","max_bytes":9,"arms":[{},{"proven":`+
		`true,"algorithm":"x,\n#","protocol":"y"}]}]}`)
	f.Add(learnedHeader+"\"allreduce\n\",0,9,tree,ll,,2,16,,\n", "[]")
	f.Fuzz(func(t *testing.T, rows, evidence string) {
		dir := t.TempDir()
		const own = "allreduce,0,1024,tree,ll,-1,-1,-1\n"
		c, base, log := learningComm(t, own, settings{learn: dir})
		path := filepath.Join(dir, LearnedFile)
		write(t, path, rows)
		write(t, filepath.Join(dir, "e.json"), evidence)
		v := c.learning.withLearned(base)
		if b, err := policyfile.DecodeBundle(v.Content()); err != nil || string(b.Policy.Text) != own {
			t.Errorf("%v: %q", err, b.Policy.Text)
		}
		if warned := log.count("WARN"); warned > 1 || warned == 1 && log.count(path) == 0 {
			t.Errorf("the log: %v", log)
		}
		e := c.learning.newEvidence()
		if open, settled, _ := c.learning.earlier(e); len(open) > 0 && settled(nccl.CollAllReduce, nccl.Range{Min: 4, Max: 4}) {
			t.Errorf("one file has what is open and what is settled: %+v", open)
		}
		e.State = trial.Learned
		if err := c.learning.save(e); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), learnedPolicy(nil)) {
			t.Errorf("%q, %v", text, err)
		}
		c.learning.rows = nil
		c.learning.withLearned(base)
	})
}

// The variables: a value is understood, or the log names it and says what is allowed.
func FuzzSettings(f *testing.F) {
	for _, v := range []string{"1", "live", "2.5%", "etcd://u:p@h:1/x", "NaN", "decisions", "-1", "nccl"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, name := range []string{EnvStrict, EnvTrust, EnvFilesTrust, EnvRendezvous, EnvReload, EnvCanary, EnvCompare,
			EnvBudget, EnvDeterministic, EnvStallLimit, EnvLog} {
			var log recorder
			s, ok := readSettings(env(name, value), log.log())
			if !ok && log.count(name) == 0 {
				t.Errorf("%s=%q is refused in silence", name, value)
			}
			if !(s.learnBudget > 0 && s.learnBudget <= 1) || s.stallLimit < 0 || s.reload < 0 || int(s.reload) >= len(reloads) {
				t.Errorf("%s=%q: %+v", name, value, s)
			}
		}
	})
}

func BenchmarkWorstLearnedFiles(b *testing.B) {
	const head = `{"format":"nccl-tuner-go learning","version":3,"nodes":2,"ranks":16,"nccl":"2.30.7","state":"learned",`
	dir := b.TempDir()
	hostile.Benchmark(b, func(text []byte) error {
		c, base, log := learningComm(b, "allreduce,0,1024,tree,ll,-1,-1,-1\n", settings{learn: dir})
		for _, name := range []string{LearnedFile, "e.json"} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				b.Fatal(err)
			}
		}
		c.learning.withLearned(base)
		e := c.learning.newEvidence()
		e.State = trial.Learned
		if err := c.learning.save(e); err != nil {
			b.Fatal(err)
		}
		return errors.New(strings.Join(log.lines, "\n"))
	},
		hostile.Text{Head: learnedHeader, Unit: "allreduce,0,9,tree,ll,,2,16,,topo.fingerprint == '5d1f0c2a9be47360'\n"},
		hostile.Text{Head: learnedHeader, Unit: "x,0,9,tree,ll,,2,16,,topo.fingerprint == '5d1f0c2a9be47360'\n"},
		hostile.Text{Head: head + `"factors":[`, Unit: `{"arms":[{},{"proven":true}]},`, Tail: `{"arms":[{}]}]}`},
		hostile.Text{Head: head + `"blocks":`, Unit: "1", Tail: "}"},
	)
}

func BenchmarkWorstSettings(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		var log recorder
		for _, name := range []string{EnvStrict, EnvRendezvous, EnvReload, EnvCompare, EnvBudget, EnvStallLimit, EnvLog} {
			readSettings(env(name, string(text)), log.log())
		}
		return nil
	})
}
