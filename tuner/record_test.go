package tuner

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
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

// The file says who decided and what NCCL's choice was, is there before the end, and has bounds.
func TestRecord(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "p.csv")
	write(t, file, "allreduce,0,inf,tree,ll,1,-1,-1\n")
	synctest.Test(t, func(t *testing.T) {
		p := New(env(EnvConfigFile, file, EnvReload, "new", EnvRecord, filepath.Join(dir, "made")))
		from := &counts{[]record.Call{
			{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024}, Algo: "tree", Proto: "ll"},
			{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 2048}, Algo: "ring", Proto: "ll"},
			{Call: nccl.Call{Coll: nccl.CollReduce, Bytes: 1024}, Algo: "ring", Proto: "simple"},
			{Call: nccl.Call{Coll: nccl.CollReduce, Bytes: 99}, Algo: "ring", Proto: "simple"},
		}}
		r := p.Record(record.CommRecord{ID: "0x7", Rank: 3, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, from.read, telemetry.Log{})
		if r == nil {
			t.Fatal("nothing is recorded")
		}
		c, err := p.Open(CommInfo{ID: 7, Rank: 3, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, ABI: 7}, telemetry.Log{})
		if err != nil {
			t.Fatal(err)
		}
		table := make([]float32, nccl.NumAlgos*nccl.NumProtos)
		for i := range table {
			table[i] = float32(100 - i)
		}
		for _, q := range []policy.Query{{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024}},
			{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 2048}},
			{Call: nccl.Call{Coll: nccl.CollReduce, Bytes: 1024}}} {
			q.PipeOps, q.Costs = 1, nccl.Costs{Micros: table, NumProto: nccl.NumProtos}
			c.Decide(q)
		}
		const tick = 10 * time.Second  // of the recorder
		time.Sleep(tick + time.Second) // simulated
		synctest.Wait()
		calls := readRecord(t, filepath.Join(dir, "made")).Comms[0].Calls
		got := ""
		for _, call := range calls {
			got += fmt.Sprintln(call.Coll, call.Bytes, call.DecidedBy == file+":1", call.DecidedBy == "NCCL", call.Own)
		}
		// The second ran otherwise than the row wants, and the last was never asked about.
		if want := "allreduce 1024 true false pat/simple\nallreduce 2048 false false \nreduce 1024 false true " +
			"pat/simple\nreduce 99 false false \n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		c.Close()
		for range 10 {
			time.Sleep(tick) // simulated
		}
		r.End()
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
		from := counts{[]record.Call{
			{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 99}, Algo: "tree", Proto: "ll"}}}
		r := p.Record(record.CommRecord{ID: "0x7", Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, from.read, telemetry.Log{})
		c, err := p.Open(CommInfo{ID: 7, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, ABI: 7}, telemetry.Log{})
		if err != nil || !c.NeverDecides() {
			t.Fatal(err)
		}
		c.Close()
		r.End()
		if call := readRecord(t, dir).Comms[0].Calls[0]; call.DecidedBy != "NCCL" {
			t.Errorf("%q: %+v", rows, call)
		}
	}
}
