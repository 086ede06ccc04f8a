package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/metricstest"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

const variable = "NCCL_TUNER_METRICS"

func newExporter() *Exporter {
	return NewExporter(variable, "1.2.3", new(safefile.Timeouts), func(string) string { return "" })
}

// engineOf is what rows of a file p.csv mean.
func engineOf(t *testing.T, rows string) *policy.Engine {
	t.Helper()
	p, err := policy.ReadCSV("p.csv", []byte(rows))
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewEngine(p, nil, nil)
}

// playedComm is a communicator with one version.
type playedComm struct {
	*CommMetrics
	view *policy.EngineView
}

// open makes a communicator of 8 ranks. Its counts are garbage once it is closed.
func open(e *Exporter, dir string, engine *policy.Engine, log Log) *playedComm {
	c := &playedComm{CommMetrics: e.New(dir, make([]atomic.Uint64, MaxDeciders)), view: engine.For(policy.Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})}
	c.Follow(engine)
	c.Open(log, func() CommState {
		return CommState{Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Engine: engine, Version: engine.Digest.Full()}
	})
	return c
}

func (c *playedComm) close() {
	c.Close()
	for i := range c.callsBy {
		c.callsBy[i].Store(1 << 50)
	}
}

// ask makes n calls of one shape.
func (c *playedComm) ask(coll nccl.Coll, bytes uint64, n uint64) {
	a := c.view.Decide(policy.Query{Call: nccl.Call{Coll: coll, Bytes: bytes}, PipeOps: 1,
		Costs: nccl.Costs{Micros: []float32{5, 6, 7, 8, 9, 10}, NumProto: 3}})
	c.callsBy[c.Decider(a)].Add(n)
}

func scrape(t *testing.T, e *Exporter) metricstest.Samples {
	t.Helper()
	text := string(e.Page())
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

// A process with very many rows and communicators writes a page of some hundred kilobytes.
func TestMetricsAreBounded(t *testing.T) {
	const numRows, numComms = 10000, 200
	var text strings.Builder
	for i := range numRows {
		fmt.Fprintf(&text, "allreduce,%d,%d,ring,ll,1,-1,-1\n", i*10, i*10+9)
	}
	e, engine, dir := newExporter(), engineOf(t, text.String()), t.TempDir()
	var comms []*playedComm
	for range numComms {
		comms = append(comms, open(e, dir, engine, Log{}))
	}
	for i := range 3000 {
		comms[1].ask(nccl.CollAllReduce, uint64(i*10), uint64(1+i%2))
	}
	before := scrape(t, e)
	is(t, before, 4500, "nccl_tuner_row_hits_total")
	is(t, before, 4500, "nccl_tuner_hits_total", "decided_by", "row")
	is(t, before, numComms, "nccl_tuner_communicators")
	if n := len(before.Of("nccl_tuner_row_hits_total")); n > maxMetricsRows+1 {
		t.Errorf("%d rows", n)
	}
	if size := len(e.Page()); size > 300<<10 {
		t.Errorf("%d bytes", size)
	}
	for _, c := range comms[1:] {
		c.close()
	}
	comms[0].ask(nccl.CollAllReduce, 99990, 1)
	after := scrape(t, e)
	is(t, after, 4501, "nccl_tuner_row_hits_total")
	for _, s := range before.Of("nccl_tuner_row_hits_total") {
		if now := after.Of("nccl_tuner_row_hits_total", "row", string(s.Metric["row"])).Sum(); now < float64(s.Value) {
			t.Errorf("row %s fell from %v to %v", s.Metric["row"], s.Value, now)
		}
	}
	comms[0].close()
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) { // another goroutine does it
		if time.Now().After(late) {
			t.Fatal("not within a minute: ", what)
		}
	}
}

// The file is there while communicators are, for everybody to read, and nothing is left behind:
// not at the end, and not of processes that were killed.
func TestMetricsFile(t *testing.T) {
	dir := t.TempDir()
	host := identity.Self().Host
	words := strings.Fields(identity.New()) // random, host, PID, namespace, start, boot
	dead := fmt.Sprintf("%sx %s %d %s 3 %s\n", metricsMark, host, 1<<30, words[3], words[5])
	left := map[string]string{
		metrics.FilePrefix + host + "_1073741824.prom":      dead,
		"." + metrics.FilePrefix + host + "_7.prom.123.tmp": dead,
		// another machine's
		metrics.FilePrefix + host + "_8.prom":  strings.Replace(dead, words[5], "0123456789abcdef", 1),
		metrics.FilePrefix + host + "_9.prom":  metricsMark + identity.New() + "\n", // alive
		metrics.FilePrefix + "other_1.prom":    dead,
		"nccl_inspector_metrics_GPU-1.prom":    "x 1\n",
		metrics.FilePrefix + host + "_10.prom": "",
	}
	for name, text := range left {
		write(t, filepath.Join(dir, name), text)
	}
	e, engine := newExporter(), engineOf(t, "allreduce,0,inf,ring,ll,1,-1,-1\n")
	mine := filepath.Join(dir, metrics.FileName(identity.Self()))
	for range 2 {
		var r recorder
		c := open(e, dir, engine, r.log())
		until(t, "the file is there", func() bool { _, err := os.Stat(mine); return err == nil })
		text, err := os.ReadFile(mine)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := metricstest.Parse(metrics.Library, string(text)); err != nil ||
			len(all.Of("nccl_tuner_info", "release", "1.2.3")) != 1 {
			t.Errorf("%v\n%s", err, text)
		}
		if info, err := os.Stat(mine); err != nil || info.Mode() != 0o644 {
			t.Errorf("%v %v", info, err)
		}
		c.close()
		if r.count("WARN") > 0 {
			t.Errorf("the log: %v", r)
		}
		var names []string
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		want := []string{"nccl_inspector_metrics_GPU-1.prom", metrics.FilePrefix + host + "_10.prom",
			metrics.FilePrefix + host + "_8.prom",
			metrics.FilePrefix + host + "_9.prom", metrics.FilePrefix + "other_1.prom"}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("%q\nwant\n%q", names, want)
		}
	}
}

// A directory that cannot be used costs one warning and nothing else.
func TestMetricsCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	taken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(taken, metrics.FileName(identity.Self()), "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, why := range map[string]string{
		filepath.Join(t.TempDir(), "missing"): "no such file or directory", file: "not a directory",
		"/proc": "", taken: "",
	} {
		var log recorder
		var mu sync.Mutex
		emit := log.log().Emit
		e := newExporter()
		e.Every = time.Millisecond
		warnings := func() int {
			mu.Lock()
			defer mu.Unlock()
			return log.count(variable + "=" + dir + ": metrics cannot be written")
		}
		c := open(e, dir, engineOf(t, "allreduce,0,inf,ring,ll,1,-1,-1\n"),
			Log{Emit: func(level Level, file string, line int, text string) {
				mu.Lock()
				defer mu.Unlock()
				emit(level, file, line, text)
			}})
		until(t, "a warning about "+dir, func() bool { return warnings() > 0 })
		time.Sleep(20 * time.Millisecond) // it is tried again meanwhile
		c.close()
		if warnings() != 1 || log.count(why) == 0 {
			t.Errorf("%v", log)
		}
	}
	if entries, _ := os.ReadDir(taken); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// Without the setting no call is numbered and nothing runs.
func TestNoMetrics(t *testing.T) {
	e := newExporter()
	c := open(e, "", engineOf(t, "allreduce,0,inf,ring,ll,1,-1,-1\n"), Log{})
	defer c.close()
	if e.opened != 0 || e.stop != nil || len(c.counted()) != firstRow {
		t.Error("the exporter runs")
	}
}

// When calls were noticed last is when a page first tells of them; 0 before the first.
func TestLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExporter()
		c := open(e, t.TempDir(), engineOf(t, "allreduce,0,inf,ring,ll,1,-1,-1\n"), Log{})
		defer c.Close()
		last := func() float64 {
			all, err := metricstest.Parse(metrics.Library, string(e.Page()))
			if err != nil {
				t.Fatal(err)
			}
			return all.Of("nccl_tuner_last_call_timestamp_seconds", "comm", "1").Sum()
		}
		if got := last(); got != 0 {
			t.Errorf("%v without a call", got)
		}
		time.Sleep(time.Hour) // simulated
		c.callsBy[firstRow].Add(3)
		want := float64(time.Now().Unix())
		for range 2 {
			if got := last(); int64(got) != int64(want) {
				t.Errorf("%v, want %v", got, want)
			}
			time.Sleep(time.Hour) // without a call
		}
		c.callsBy[byNCCL].Add(1)
		if got := last(); got < want+7200 {
			t.Errorf("%v after a call two hours later", got)
		}
	})
}
