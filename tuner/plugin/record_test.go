//go:build cgo

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// readRecord reads the one file in a directory.
func readRecord(t *testing.T, dir string) (name string, f *record.File) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 1 {
		t.Fatalf("files: %q", names)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "null") {
		t.Errorf("%s", text)
	}
	f, err = record.Read(names[0], text)
	if err != nil {
		t.Fatal(err)
	}
	return names[0], f
}

// recordJob plays two ranks of a job and checks what is recorded of them: each call once, whichever thread it comes
// on, and each kind of call by itself.
func recordJob(t *testing.T, p programs, env ...string) {
	t.Helper()
	const ranks, replays, kinds = 2, 20000, 6 * 3 * 18 // as testhost/scenario_record.c has them
	job := profile.NewJob()
	for rank := range ranks {
		dir := t.TempDir()
		scenario(t, p.scenarios, p.so, "recorded", append(env, "NCCL_TUNER_RECORD="+dir,
			fmt.Sprint("RECORD_RANK=", rank), fmt.Sprint("RECORD_RANKS=", ranks))...)
		name, f := readRecord(t, dir)
		c := f.Comms[0]
		if len(f.Comms) != 1 || c.ID != "0xabc" || c.Rank != rank || c.Ranks != ranks || c.Nodes != 2 ||
			c.Unlisted != 0 {
			t.Errorf("%#v", c)
		}
		others := 0
		for _, call := range c.Calls {
			switch call {
			case record.Call{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1 << 20}, Algo: "tree", Proto: "ll",
				Channels: 4, Calls: replays},
				record.Call{Call: nccl.Call{Coll: nccl.CollAllGather, Bytes: ranks << 19}, Algo: "ring",
					Proto: "simple", Channels: 4, Calls: replays},
				record.Call{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 8 << 10}, Channels: 2, Calls: 1}:
				others++
			default:
				if call.Coll != nccl.CollReduceScatter || call.Bytes != ranks<<21 || call.Calls != 1 {
					t.Errorf("%+v", call)
				}
			}
		}
		if others != 3 || len(c.Calls) != kinds+others {
			t.Errorf("%d kinds of calls, %d beside those of one size", len(c.Calls), others)
		}
		text, _ := os.ReadFile(name)
		if err := job.Recorder(name, bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	made, err := job.Profile(0)
	if err != nil || len(made.Notes) > 0 || len(made.Entries) != 6*3+3 { // a profile does not tell channels apart
		t.Errorf("%v: %+v", err, made)
	}
}

func TestRecorded(t *testing.T) {
	t.Parallel()
	recordJob(t, built)
}

// NCCL 2.27 tells of collectives, too, and a communicator that made no calls has none.
func TestRecordedV4(t *testing.T) {
	dir := t.TempDir()
	log := scenario(t, built.scenarios, built.so, "recorded_v4", "NCCL_TUNER_RECORD="+dir)
	if want := "INFO TUNER/Go: communicator 0x77: rank 0 of 2 is recorded to " + dir; !slices.Contains(log, want) {
		t.Errorf("no line %q in %q", want, log)
	}
	_, f := readRecord(t, dir)
	want := []record.CommRecord{
		{ID: "0x77", Rank: 0, Comm: nccl.Comm{Nodes: 2, Ranks: 2}, Calls: []record.Call{}},
		{ID: "0x99", Rank: 1, Comm: nccl.Comm{Nodes: 1, Ranks: 2},
			Calls: []record.Call{{Call: nccl.Call{Coll: nccl.CollReduce, Bytes: 8 << 10}, Algo: "collnet_chain",
				Proto: "simple", Channels: 2, Calls: 2000}}},
	}
	if !reflect.DeepEqual(f.Comms, want) {
		t.Errorf("%#v, want %#v", f.Comms, want)
	}
}

// A communicator is closed while threads launch its collectives: no event touches what is gone.
func TestRecordedAborts(t *testing.T) {
	scenario(t, built.scenarios, built.so, "recorded_aborts", append(few(), "NCCL_TUNER_RECORD="+t.TempDir())...)
}

// A directory that cannot be written to costs the recording, and nothing else.
func TestRecordedNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o644)
	log := scenario(t, built.scenarios, built.so, "unrecorded", "NCCL_TUNER_RECORD="+file)
	if len(log) != 1 || !strings.Contains(log[0], "not a directory; nothing is recorded") {
		t.Errorf("%q", log)
	}
}

// The tuner half takes a communicator's identity from the profiler half, for just the communicator that it is of.
func TestIdentified(t *testing.T) {
	log := strings.Join(scenario(t, built.scenarios, built.so, "identified"), "\n")
	if strings.Count(log, " comm=0x123 ranks=8 nodes=1 ") != 1 || strings.Count(log, " ranks=8 nodes=1 ") != 2 ||
		strings.Count(log, " ranks=16 nodes=1 ") != 1 || strings.Count(log, " comm=") != 1 {
		t.Error(log)
	}
}
