package profile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// The files of all ranks together tell how often a rank calls what, in the mean.
func TestRecorder(t *testing.T) {
	job := NewJob()
	files, _ := filepath.Glob("../../docs/testdata/recorded/*.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := job.Recorder(file, bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := job.Profile(20)
	if err != nil || len(files) != 2 {
		t.Fatal(err, files)
	}
	shape := nccl.Comm{Nodes: 2, Ranks: 2}
	want := []Entry{
		{CallKind{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 64 << 20}, Comm: shape,
			Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple}}, 120, 6, 0, 24, "policy.csv:3"},
		{CallKind{Call: nccl.Call{Coll: nccl.CollAllGather, Bytes: 1 << 20}, Comm: shape,
			Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL128}}, 240, 12, 0, 16, "NCCL"},
		{CallKind{Call: nccl.Call{Coll: nccl.CollReduceScatter, Bytes: 1 << 20}, Comm: shape,
			Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL128}}, 240, 12, 0, 16, "NCCL"},
	}
	for _, w := range want {
		found := false
		for _, e := range p.Entries {
			found = found || e == w
		}
		if !found {
			t.Errorf("no %+v in %+v", w, p.Entries)
		}
	}
	if len(p.Entries) != len(want) {
		t.Errorf("%d entries", len(p.Entries))
	}
	if len(p.Notes) > 0 {
		t.Errorf("notes: %q", p.Notes)
	}
}

// Calls that ran as what no tuner chooses are told from calls of which nothing is known, in the written profile and
// beside the library's log, too. NCCL 2.31.2 tells a symmetric kernel's channels as 0.
func TestRecorderPastTuner(t *testing.T) {
	job := NewJob()
	if err := job.Recorder("x", strings.NewReader(`{"nccl_tuner_record":1,"host":"n","pid":1,"communicators":[{"id":"a",`+
		`"rank":0,"ranks":4,"nodes":2,"calls":[{"collective":"allgather","bytes":8388608,"channels":0,"calls":1100},`+
		`{"collective":"allgather","bytes":8388608,"algorithm":"tree","protocol":"ll","channels":2,"calls":100}]}]}`,
	)); err != nil {
		t.Fatal(err)
	}
	log, err := os.Open("testdata/decisions.log") // it has ring/simple for this call
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := job.Log("log", log); err != nil {
		t.Fatal(err)
	}
	p, err := job.Profile(0)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	again, err := Read("job.csv", text.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []*Profile{p, again} {
		n := 0
		for _, e := range of.Entries {
			if e.DecidedBy == ByNoTuner {
				n++
				if e.Calls != 1100 || e.Cell != nccl.NoCell || e.Bytes != 8<<20 {
					t.Errorf("%+v", e)
				}
			}
		}
		if n != 1 {
			t.Errorf("%d entries by no tuner: %+v", n, of.Entries)
		}
	}
}

// Files of several jobs in one directory would be averaged: that is said.
func TestRecorderOfSeveralJobs(t *testing.T) {
	job := NewJob()
	for i, comms := range []string{"ab", "bc", "c", "d", "d"} {
		text := ""
		for _, comm := range comms {
			text += fmt.Sprintf(
				`,{"id":"%c","rank":%d,"ranks":8,"nodes":1,"calls":[{"collective":"allreduce","bytes":8,"calls":1}]}`,
				comm, i)
		}
		if err := job.Recorder("x",
			strings.NewReader(fmt.Sprintf(`{"nccl_tuner_record":1,"host":"n","pid":%d,"communicators":[%s]}`, i,
				text[1:]))); err != nil {
			t.Fatal(err)
		}
		p, err := job.Profile(0)
		if notes := fmt.Sprint(p.Notes); err != nil ||
			strings.Contains(notes, "these are 2 groups of processes that have no communicator in common") != (i >= 3) {
			t.Errorf("%d processes: %v %s", i+1, err, notes)
		}
	}
}

func TestRecorderRefuses(t *testing.T) {
	comm := func(text string) string { return `{"nccl_tuner_record":1,"communicators":[` + text + `]}` }
	for text, want := range map[string]string{
		`{"nccl_tuner_record":1`: "x: not a recorder's file: unexpected end of JSON input " +
			"(the recorder writes its files whole: copy it again",
		`{"nccl_tuner_record":2}`: "nccl_tuner_record is 2 (known: 1)",
		comm(
			`{"id":"","rank":0,"ranks":2,"nodes":1}`): "x: communicator 1: id is empty",
		comm(
			`{"id":"0x1","rank":2,"ranks":2,"nodes":1}`): "rank is 2 (allowed: 0 to 1)",
		comm(
			`{"id":"0x1","rank":0,"ranks":2,"nodes":3}`): "ranks is 2, nodes 3",
		comm(
			`{"id":"0x1","rank":0,"ranks":2,"nodes":1,"calls":[{"collective":"allreduce","bytes":0}]}`): "bytes is 0",
		comm(
			`{"id":"0x1","rank":0,"ranks":2,"nodes":1,"calls":[{"collective":"alreduce","bytes":8}]}`): "alreduce",
		comm(
			`{"id":"0x1","rank":0,"ranks":2,"nodes":1,"calls":[{"collective":"allreduce","bytes":8,"calls":18446744073709551615}]}`): "calls is 18446744073709551615 (allowed: up to 1125899906842624)",
		comm(
			`{"id":"0x1","rank":0,"ranks":2,"nodes":1,"unlisted_calls":18446744073709551615}`): "unlisted_calls is " +
			"18446744073709551615",
		comm(
			`{"id":"0x1","rank":0,"ranks":2,"nodes":1,"calls":[{"collective":"allreduce","bytes":8,"calls":-1}]}`): "x: not a recorder's file",
	} {
		if err := NewJob().Recorder("x", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v (want: %s)", text, err, want)
		}
	}
}
