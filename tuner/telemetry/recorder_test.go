package telemetry

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
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// counts stands for what is counted in C.
type counts struct{ calls []record.Call }

func (c *counts) read(to *record.CommRecord) {
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

// Where versions decide by turns, each is named for what ran by it.
func TestRecordOfTurns(t *testing.T) {
	dir := t.TempDir()
	from := &counts{[]record.Call{
		{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024}, Algo: "tree", Proto: "ll"},
		{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024}, Algo: "pat", Proto: "simple"},
		{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024}},
	}}
	r := NewRecorder("NCCL_TUNER_RECORD", new(safefile.Timeouts)).Begin(dir,
		record.CommRecord{ID: "0x7", Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, from.read, Log{})
	table := make([]float32, nccl.NumAlgos*nccl.NumProtos)
	for i := range table {
		table[i] = float32(100 - i)
	}
	engine := engineOf(t, "allreduce,0,inf,tree,ll,1,-1,-1\n")
	q := policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024}, PipeOps: 1,
		Costs: nccl.Costs{Micros: table, NumProto: nccl.NumProtos}}
	row := policy.Answer{By: policy.ByRow,
		Decision: policy.Decision{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoLL}}}}
	none := policy.Answer{By: policy.ByNCCL,
		Decision: policy.Decision{Rule: -1, Config: nccl.Config{Cell: nccl.NoCell}}}
	for range 2 {
		r.Note(engine, q, row)
		r.Note(engine, q, none)
	}
	r.End()
	got := ""
	for _, call := range readRecord(t, dir).Comms[0].Calls {
		got += fmt.Sprintln(call.Algo, call.DecidedBy, call.Own)
	}
	if want := fmt.Sprintf("tree %s:1 pat/simple\npat NCCL pat/simple\n NCCL pat/simple\n", "p.csv"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func damaged(*record.CommRecord) { panic("provoked") }

// A panic in the end of one recording does not hold up the next communicator.
func TestRecordOfADefect(t *testing.T) {
	p, dir := NewRecorder("NCCL_TUNER_RECORD", new(safefile.Timeouts)), t.TempDir()
	r := p.Begin(dir, record.CommRecord{ID: "0x1", Comm: nccl.Comm{Nodes: 1, Ranks: 2}}, damaged, Log{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the defect has not come up")
			}
		}()
		r.End()
	}()
	if !p.mu.TryLock() {
		t.Fatal("the next communicator would wait for ever")
	}
	p.mu.Unlock()
	if r := p.Of(1, 0); r == nil {
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
		p, dir := NewRecorder("NCCL_TUNER_RECORD", new(safefile.Timeouts)), t.TempDir()
		if c := p.Begin(dir, record.CommRecord{ID: "0x1", Comm: nccl.Comm{Nodes: 1, Ranks: 2}}, damaged, log); c == nil {
			t.Fatal("nothing is recorded")
		}
		time.Sleep(firstRecord) // simulated
		synctest.Wait()
		if r.count("WARN TUNER/Go: a defect in the recorder: provoked") != 1 {
			t.Errorf("the log: %v", r)
		}
	})
}

// Where the last communicator's end cannot write the file, the log says that something is lost, and only there.
func TestRecordThatIsLost(t *testing.T) {
	for _, lost := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "record")
		var r recorder
		p := NewRecorder("NCCL_TUNER_RECORD", new(safefile.Timeouts))
		c := p.Begin(dir, record.CommRecord{ID: "0x1", Comm: nccl.Comm{Nodes: 1, Ranks: 2}}, new(counts).read, r.log())
		if lost {
			os.RemoveAll(dir)
		}
		c.End()
		if said := r.count("what was recorded last is lost") == 1; said != lost {
			t.Errorf("the file is lost: %t; the log: %v", lost, r)
		}
	}
}

// A process that makes ever new communicators keeps the latest.
func TestRecordIsBounded(t *testing.T) {
	dir := t.TempDir()
	p := NewRecorder("NCCL_TUNER_RECORD", new(safefile.Timeouts))
	first := p.Begin(dir, record.CommRecord{ID: "0x1", Comm: nccl.Comm{Nodes: 1, Ranks: 2}}, new(counts).read, Log{})
	for id := range uint64(maxRecordings + 10) {
		comm := record.CommRecord{ID: CommID(100 + id), Comm: nccl.Comm{Nodes: 1, Ranks: 2}}
		r := p.Begin(dir, comm, new(counts).read, Log{})
		r.End()
	}
	first.End()
	f := readRecord(t, dir)
	if len(f.Comms) != maxRecordings || f.Left != 11 || f.Comms[0].ID != "0x1" ||
		f.Comms[maxRecordings-1].ID != fmt.Sprintf("%#x", 100+maxRecordings+9) {
		t.Errorf("%d communicators, %d left out, from %s on", len(f.Comms), f.Left, f.Comms[0].ID)
	}
}
