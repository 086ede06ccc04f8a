package tuner

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/metricstest"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// ask makes n calls of one shape.
func ask(c *Communicator, coll nccl.Coll, bytes uint64, n uint64) {
	_, decider := c.Decide(policy.Query{Call: nccl.Call{Coll: coll, Bytes: bytes}, PipeOps: 1,
		Costs: nccl.Costs{Micros: []float32{5, 6, 7, 8, 9, 10}, NumProto: 3}})
	c.info.CallsBy[decider].Add(n)
}

func scrape(t *testing.T, p *Plugin) metricstest.Samples {
	t.Helper()
	text := string(p.exporter.Page())
	all, err := metricstest.Parse(metrics.Library, text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return all
}

func is(t *testing.T, all metricstest.Samples, want float64, name string, labels ...string) {
	t.Helper()
	if got := all.Of(name, labels...); len(got) == 0 || got.Sum() != want {
		t.Errorf("%s %v: %v, want %v", name, labels, got, want)
	}
}

func isNot(t *testing.T, all metricstest.Samples, name string, labels ...string) {
	t.Helper()
	if got := all.Of(name, labels...); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func open(t *testing.T, p *Plugin, info CommInfo, log telemetry.Log) *Communicator {
	t.Helper()
	if info.Counter != nil && info.ID == 0 && info.ABI >= nccl.ABIComms {
		info.ID = rand.Uint64()
	}
	info.CallsBy = make([]atomic.Uint64, telemetry.MaxDeciders)
	c, err := p.Open(info, log)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What was called, by what it was decided, and how the policy changed; no count falls, whatever ends.
func TestMetrics(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "p.csv")
	write(t, file, "allreduce,0,1023,ring,ll,1,-1,-1\nallreduce,1024,inf,ring,ll128,2,-1,-1\n"+
		"broadcast,0,inf,ring,ll,3,-1,-1\nreduce,0,inf,ring,ll,3,77,-1\n")
	p := New(env(EnvConfigFile, file, EnvMetrics, dir, "SLURM_JOB_ID", "42", "OMPI_COMM_WORLD_RANK", "7"))
	a := open(t, p, CommInfo{Comm: nccl.Comm{Nodes: 1, Ranks: 1}, ABI: 7, Counter: &agree.Counter{}}, telemetry.Log{})
	b := open(t, p, CommInfo{Comm: nccl.Comm{Nodes: 2, Ranks: 8}, ABI: 4, Counter: &agree.Counter{}}, telemetry.Log{})
	ask(a, nccl.CollAllReduce, 8, 100)
	ask(a, nccl.CollAllReduce, 16, 10)
	ask(b, nccl.CollAllReduce, 4096, 1000)
	ask(b, nccl.CollAllGather, 4096, 5)
	all := scrape(t, p)
	for _, s := range all {
		if s.Metric["slurm_job_id"] != "42" || s.Metric["rank"] != "7" ||
			string(s.Metric["node"]) != identity.Self().Host || s.Metric["pid"] == "" {
			t.Fatalf("%v", s)
		}
	}
	version := a.inForce().EffectDigest()[:12]
	is(t, all, 2, "nccl_tuner_communicators")
	is(t, all, 1, "nccl_tuner_version_info", "comm", "1", "policy_version", version, "policy", file)
	is(t, all, 1115, "nccl_tuner_calls_total")
	is(t, all, 1005, "nccl_tuner_calls_total", "comm", "2", "n_nodes", "2", "nranks", "8")
	is(t, all, 110, "nccl_tuner_hits_total", "comm", "1", "decided_by", "row")
	is(t, all, 5, "nccl_tuner_hits_total", "comm", "2", "decided_by", "nccl")
	is(t, all, 110, "nccl_tuner_row_hits_total", "row", file+":1")
	is(t, all, 1000, "nccl_tuner_row_hits_total", "row", file+":2")
	isNot(t, all, "nccl_tuner_row_hits_total", "row", file+":3")
	is(t, all, 1, "nccl_tuner_unchangeable", "comm", "2", "reason", "old_nccl")
	isNot(t, all, "nccl_tuner_unchangeable", "comm", "1")
	isNot(t, all, "nccl_tuner_silent")
	is(t, all, 0, "nccl_tuner_change_pending", "comm", "1")

	b.Close()
	all = scrape(t, p)
	is(t, all, 110, "nccl_tuner_calls_total")
	is(t, all, 1000, "nccl_tuner_row_hits_total", "row", file+":2")

	write(t, file, "allreduce,0,inf,ring,ll,4,-1,-1\n")
	for n := uint64(0); a.inForce().EffectDigest()[:12] == version; n++ {
		call := agree.HashCall(0, n, 1)
		counter := a.info.Counter
		if counter.Seq.Load() >= counter.Trigger.Load() {
			if _, err := a.AtTrigger(call); err != nil {
				t.Fatal(err)
			}
		}
		counter.Add(call)
		counter.Seq.Store(n + 1)
		time.Sleep(100 * time.Microsecond) // a GPU works
	}
	ask(a, nccl.CollAllReduce, 8, 7)
	all = scrape(t, p)
	is(t, all, 117, "nccl_tuner_calls_total")
	is(t, all, 117, "nccl_tuner_row_hits_total", "row", file+":1")
	is(t, all, 1, "nccl_tuner_changes_total", "outcome", "committed")
	is(t, all, 0, "nccl_tuner_changes_total", "outcome", "refused")
	is(t, all, 1, "nccl_tuner_change_seconds_count")
	if took := all.Of("nccl_tuner_change_seconds_sum").Sum(); took <= 0 {
		t.Errorf("a change took %v s", took)
	}
	a.Close()
	is(t, scrape(t, p), 1117, "nccl_tuner_row_hits_total")
}

// Why nothing but NCCL decides, and why an edit would not come.
func TestMetricsOfSilence(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "p.csv"), filepath.Join(dir, "bad.csv")
	write(t, good, "allreduce,0,inf,ring,ll,1,1,2\n")
	write(t, bad, "allreduce,0,inf,rign,ll,1,1,2\n")
	for _, c := range []struct {
		name, silent, unchangeable string
		env                        []string
		info                       CommInfo
	}{
		{"all is well", "", "", []string{EnvConfigFile, good}, CommInfo{Comm: nccl.Comm{Nodes: 1, Ranks: 2}, ABI: 7}},
		{"no policy", "no_policy", "no_policy", nil, CommInfo{Comm: nccl.Comm{Nodes: 1, Ranks: 2}, ABI: 7}},
		{"a bad one", "policy_unusable", "old_nccl", []string{EnvConfigFile, bad},
			CommInfo{Comm: nccl.Comm{Nodes: 1, Ranks: 2}, ABI: 4}},
		{"for others", "no_row", "", []string{EnvConfigFile, good},
			CommInfo{Comm: nccl.Comm{Nodes: 1, Ranks: 4}, ABI: 7}},
		{"for others, and fixed", "no_row", "reload_new", []string{EnvConfigFile, good, EnvReload, "new"},
			CommInfo{Comm: nccl.Comm{Nodes: 1, Ranks: 4}, ABI: 7}},
		{"several nodes", "no_row", "no_rendezvous", []string{EnvConfigFile, good},
			CommInfo{Comm: nccl.Comm{Nodes: 2, Ranks: 2}, ABI: 7}},
		{"no place", "no_row", "no_rendezvous", []string{EnvConfigFile, good, EnvRendezvous, "nonsense://x"},
			CommInfo{Comm: nccl.Comm{Nodes: 2, Ranks: 2}, ABI: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New(env(append(c.env, EnvMetrics, t.TempDir())...))
			c.info.Counter = &agree.Counter{}
			comm := open(t, p, c.info, telemetry.Log{})
			defer comm.Close()
			all := scrape(t, p)
			reason := func(name string) string {
				if found := all.Of(name); len(found) > 0 {
					return string(found[0].Metric["reason"])
				}
				return ""
			}
			if silent, fixed := reason("nccl_tuner_silent"), reason("nccl_tuner_unchangeable"); silent != c.silent ||
				fixed != c.unchangeable {
				t.Errorf("silent %q, unchangeable %q", silent, fixed)
			}
			is(t, all, 1, "nccl_tuner_version_info", "comm", "1")
			if strings.Contains(strings.Join(c.env, " "), bad) {
				is(t, all, 1, "nccl_tuner_policy_errors_total")
			}
		})
	}
}

// The gauge tells whether a file is refused now: from the read that finds it bad to the one that finds it good.
func TestRefusedFileInMetrics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	p := New(env(EnvConfigFile, file, EnvMetrics, t.TempDir()))
	c := open(t, p, CommInfo{Comm: nccl.Comm{Nodes: 1, Ranks: 2}, ABI: 7}, telemetry.Log{})
	defer c.Close()
	for _, edit := range []struct {
		text    string
		refused float64
	}{{"", 0}, {"allreduce,0,inf,rign\n", 1}, {"# no rows\n", 1}, {rows(2), 0}} {
		if edit.text != "" {
			write(t, file, edit.text)
			if _, err := p.loader.LoadLive(c.settings.files, telemetry.Log{}); err != nil {
				t.Fatal(err)
			}
		}
		is(t, scrape(t, p), edit.refused, "nccl_tuner_policy_refused")
	}
	is(t, scrape(t, p), 2, "nccl_tuner_policy_errors_total")
}

// Scrapes, calls and changes at the same time, for the race detector: no count ever falls.
func TestMetricsWhileThePolicyChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	p := New(env(EnvConfigFile, file, EnvMetrics, t.TempDir()))
	p.exporter.Every = time.Millisecond
	c := open(t, p, CommInfo{Comm: nccl.Comm{Nodes: 1, Ranks: 1}, ABI: 7, Counter: &agree.Counter{}}, telemetry.Log{})
	stop := make(chan struct{})
	var scraping sync.WaitGroup
	scraping.Go(func() {
		last := 0.
		for {
			calls := scrape(t, p).Of("nccl_tuner_calls_total").Sum()
			if calls < last {
				t.Errorf("%v calls, then %v", last, calls)
			}
			last = calls
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	edits, made := 0, c.inForce()
	for n := uint64(0); edits < 5; n++ {
		call := agree.HashCall(0, n%7, 1)
		if counter := c.info.Counter; counter.Seq.Load() >= counter.Trigger.Load() {
			if _, err := c.AtTrigger(call); err != nil {
				t.Fatal(err)
			}
		}
		if c.inForce() != made || n == 0 {
			made = c.inForce()
			edits++
			write(t, file, rows(1+edits))
		}
		c.info.Counter.Add(call)
		ask(c, nccl.CollAllReduce, n%7, 1)
		c.info.Counter.Seq.Store(n + 1)
		time.Sleep(50 * time.Microsecond) // a GPU works
	}
	calls := float64(c.info.Counter.Seq.Load())
	is(t, scrape(t, p), calls, "nccl_tuner_calls_total")
	close(stop)
	scraping.Wait()
	c.Close()
	is(t, scrape(t, p), calls, "nccl_tuner_row_hits_total")
}
