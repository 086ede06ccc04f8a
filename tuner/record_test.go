package tuner

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// counts stands for what is counted in C.
type counts struct{ calls []record.Call }

func (c *counts) Read(to *record.Comm) {
	if len(to.Calls) == 0 {
		to.Calls = append(to.Calls, c.calls...)
	}
	for i := range to.Calls {
		to.Calls[i].Calls++
	}
}

func readRecord(t *testing.T, dir string) *record.File {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 1 {
		t.Fatalf("%q (want one file)", names)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := record.Read(names[0], text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The file says who decided and what NCCL alone would have taken, is there before the end, and has bounds.
func TestRecord(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "p.csv")
	write(t, file, "allreduce,0,inf,tree,ll,1,-1,-1\n")
	synctest.Test(t, func(t *testing.T) {
		p := New(env(EnvConfigFile, file, EnvReload, "new", EnvRecord, filepath.Join(dir, "made")))
		from := &counts{[]record.Call{
			{Coll: nccl.CollAllReduce, Bytes: 1024, Algo: "tree", Proto: "ll"}, {Coll: nccl.CollAllReduce, Bytes: 2048, Algo: "ring", Proto: "ll"},
			{Coll: nccl.CollReduce, Bytes: 1024, Algo: "ring", Proto: "simple"}, {Coll: nccl.CollReduce, Bytes: 99, Algo: "ring", Proto: "simple"},
		}}
		r := p.Record(RecordInfo{ID: 7, Rank: 3, Ranks: 8, Nodes: 1}, from, Log{})
		if r == nil {
			t.Fatal("nothing is recorded")
		}
		c, err := p.Open(CommInfo{ID: 7, Rank: 3, Ranks: 8, Nodes: 1, ABI: 7}, Log{})
		if err != nil {
			t.Fatal(err)
		}
		table := make([]float32, nccl.NumAlgos*nccl.NumProtos)
		for i := range table {
			table[i] = float32(100 - i)
		}
		for _, q := range []policy.Query{{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024}}, {Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 2048}}, {Call: nccl.Call{Coll: nccl.CollReduce, Bytes: 1024}}} {
			q.PipeOps, q.Costs = 1, nccl.Costs{Micros: table, NumProto: nccl.NumProtos}
			c.Decide(q)
		}
		time.Sleep(firstRecord + time.Second)
		synctest.Wait()
		calls := readRecord(t, filepath.Join(dir, "made")).Comms[0].Calls
		got := ""
		for _, call := range calls {
			got += fmt.Sprintln(call.Coll, call.Bytes, call.DecidedBy == file+":1", call.DecidedBy == "NCCL", call.Own)
		}
		// The second ran otherwise than the row wants, and the last was never asked about.
		if want := "allreduce 1024 true false pat/simple\nallreduce 2048 false false \nreduce 1024 false true pat/simple\nreduce 99 false false \n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		c.Close()
		for range 10 {
			time.Sleep(firstRecord)
		}
		p.RecordEnd(r)
		comm := readRecord(t, filepath.Join(dir, "made")).Comms[0]
		for _, call := range comm.Calls {
			if call.Calls != 4 { // read after 10, 30, 70 and, at the end, 111 s
				t.Errorf("%s %d: %d calls", call.Coll, call.Bytes, call.Calls)
			}
		}
		synctest.Wait()
	})
}

// NCCL decides what a communicator makes that no row is for, and the file says so.
func TestRecordWithoutRows(t *testing.T) {
	for _, rows := range []string{"", "allreduce,0,inf,tree,ll,1,99,-1\n"} {
		dir, file := t.TempDir(), filepath.Join(t.TempDir(), "p.csv")
		write(t, file, rows)
		p := New(env(EnvConfigFile, file, EnvReload, "new", EnvRecord, dir))
		r := p.Record(RecordInfo{ID: 7, Ranks: 8, Nodes: 1}, &counts{[]record.Call{{Coll: nccl.CollAllReduce, Bytes: 99, Algo: "tree", Proto: "ll"}}}, Log{})
		c, err := p.Open(CommInfo{ID: 7, Ranks: 8, Nodes: 1, ABI: 7}, Log{})
		if err != nil || !c.Idle() {
			t.Fatal(err)
		}
		c.Close()
		p.RecordEnd(r)
		if call := readRecord(t, dir).Comms[0].Calls[0]; call.DecidedBy != "NCCL" {
			t.Errorf("%q: %+v", rows, call)
		}
	}
}

// Where versions decide by turns, each is named for what ran by it.
func TestRecordOfTurns(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "p.csv")
	write(t, file, "allreduce,0,inf,tree,ll,1,-1,-1\n")
	p := New(env(EnvConfigFile, file, EnvReload, "new", EnvRecord, dir))
	from := &counts{[]record.Call{
		{Coll: nccl.CollAllReduce, Bytes: 1024, Algo: "tree", Proto: "ll"}, {Coll: nccl.CollAllReduce, Bytes: 1024, Algo: "pat", Proto: "simple"}, {Coll: nccl.CollAllReduce, Bytes: 1024},
	}}
	r := p.Record(RecordInfo{ID: 7, Ranks: 8, Nodes: 1}, from, Log{})
	table := make([]float32, nccl.NumAlgos*nccl.NumProtos)
	for i := range table {
		table[i] = float32(100 - i)
	}
	read, err := p.use(p.loadFiles(settings{configFile: file}), settings{configFile: file}, Log{})
	if err != nil {
		t.Fatal(err)
	}
	q := policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024}, PipeOps: 1, Costs: nccl.Costs{Micros: table, NumProto: nccl.NumProtos}}
	row := policy.Answer{By: policy.ByRow, Decision: policy.Decision{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoLL}}}}
	none := policy.Answer{By: policy.ByNCCL, Decision: policy.Decision{Rule: -1, Config: nccl.Config{Cell: nccl.NoCell}}}
	for range 2 {
		r.add(read.version.engine, q, row)
		r.add(read.version.engine, q, none)
	}
	p.RecordEnd(r)
	got := ""
	for _, call := range readRecord(t, dir).Comms[0].Calls {
		got += fmt.Sprintln(call.Algo, call.DecidedBy, call.Own)
	}
	if want := fmt.Sprintf("tree %s:1 pat/simple\npat NCCL pat/simple\n NCCL pat/simple\n", file); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

type damaged struct{}

func (damaged) Read(*record.Comm) { panic("provoked") }

// A panic in the end of one recording does not hold up the next communicator.
func TestRecordOfADefect(t *testing.T) {
	p := New(env(EnvRecord, t.TempDir()))
	r := p.Record(RecordInfo{ID: 1, Ranks: 2, Nodes: 1}, damaged{}, Log{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the defect has not come up")
			}
		}()
		p.RecordEnd(r)
	}()
	if !p.recordings.mu.TryLock() {
		t.Fatal("the next communicator would wait for ever")
	}
	p.recordings.mu.Unlock()
	if r := p.recordings.of(1, 0); r == nil {
		t.Error("what was recorded before is gone")
	}
}

// Nor does one while a job runs end the job.
func TestRecordOfADefectMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		var mu sync.Mutex // the background logs beside the test
		log := Log{Emit: func(level Level, file string, line int, text string) {
			mu.Lock()
			defer mu.Unlock()
			r.log().Emit(level, file, line, text)
		}}
		p := New(env(EnvRecord, t.TempDir()))
		if c := p.Record(RecordInfo{ID: 1, Ranks: 2, Nodes: 1}, damaged{}, log); c == nil {
			t.Fatal("nothing is recorded")
		}
		time.Sleep(firstRecord)
		synctest.Wait()
		if r.count("WARN TUNER/Go: a defect in the recorder: provoked") != 1 {
			t.Errorf("the log: %v", r)
		}
	})
}

// A process that makes ever new communicators keeps the latest.
func TestRecordIsBounded(t *testing.T) {
	dir := t.TempDir()
	p := New(env(EnvRecord, dir))
	first := p.Record(RecordInfo{ID: 1, Ranks: 2, Nodes: 1}, &counts{}, Log{})
	for id := range uint64(maxRecordings + 10) {
		r := p.Record(RecordInfo{ID: 100 + id, Ranks: 2, Nodes: 1}, &counts{}, Log{})
		p.RecordEnd(r)
	}
	p.RecordEnd(first)
	f := readRecord(t, dir)
	if len(f.Comms) != maxRecordings || f.Left != 11 || f.Comms[0].ID != "0x1" || f.Comms[maxRecordings-1].ID != fmt.Sprintf("%#x", 100+maxRecordings+9) {
		t.Errorf("%d communicators, %d left out, from %s on", len(f.Comms), f.Left, f.Comms[0].ID)
	}
}
