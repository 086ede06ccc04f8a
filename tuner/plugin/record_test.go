//go:build cgo

package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

const recordedRanks = 8

// recordJob lets so many processes play the ranks of a job. It returns what they recorded, by file, and what is true: what a
// rank itself sees of a call, by rank, collective and sequence number.
func recordJob(t *testing.T, p programs, env ...string) (files map[string]*record.File, truth map[string]uint64) {
	t.Helper()
	dir, truths := t.TempDir(), t.TempDir()
	var ranks sync.WaitGroup
	for rank := range recordedRanks {
		ranks.Go(func() {
			all := append([]string{"NCCL_TUNER_RECORD=" + dir, "NCCL_TUNER_RECORD_KERNELS=1", "SCENARIO_DIR=" + truths,
				fmt.Sprint("RECORD_RANK=", rank), fmt.Sprint("RECORD_RANKS=", recordedRanks)}, env...)
			scenario(t, p.scenarios, p.so, "recorded", all...)
		})
	}
	ranks.Wait()
	files, truth = map[string]*record.File{}, map[string]uint64{}
	names, _ := filepath.Glob(filepath.Join(dir, "record-*.json"))
	if left, _ := os.ReadDir(dir); len(names) != recordedRanks || len(left) != len(names) {
		t.Fatalf("%d files of %d ranks, %d in all", len(names), recordedRanks, len(left))
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if files[name], err = record.Read(name, text); err != nil {
			t.Fatal(err)
		}
	}
	for rank := range recordedRanks {
		text, err := os.ReadFile(filepath.Join(truths, fmt.Sprint("truth-", rank)))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var coll string
			var seq, nanos uint64
			if _, err := fmt.Sscan(line, &coll, &seq, &nanos); err != nil {
				t.Fatal(err)
			}
			truth[fmt.Sprintf("%d %s %d", rank, strings.ToLower(coll), seq)] = nanos
		}
	}
	return files, truth
}

// trusted checks that each time is what the rank saw of just this call, and returns how many there are.
func trusted(t *testing.T, files map[string]*record.File, truth map[string]uint64) (n int, distrusted uint64) {
	t.Helper()
	for name, f := range files {
		c := f.Comms[0]
		distrusted += c.Distrusted
		if c.Dropped > 0 || c.Unlisted > 0 {
			t.Errorf("%s: dropped %d, unlisted %d", name, c.Dropped, c.Unlisted)
		}
		for _, call := range c.Calls {
			for _, time := range call.Times {
				n++
				if want, ok := truth[fmt.Sprintf("%d %s %d", c.Rank, call.Coll, time[0])]; !ok || want != time[1] {
					t.Errorf("%s: %s %d of rank %d: %d ns (true: %d)", name, call.Coll, time[0], c.Rank, time[1], want)
				}
			}
		}
	}
	return n, distrusted
}

// What is recorded of a job is right, and from no stamp that is not to be trusted: where ranks come 100 us apart, times are
// noisy by 3 %, ends by 2 us, proxy threads lag behind the stamps, some stamps are missing or run backwards, works share theirs, and
// events come for calls and communicators that are gone.
func TestRecorded(t *testing.T) {
	t.Parallel()
	files, truth := recordJob(t, built)
	n, distrusted := trusted(t, files, truth)
	if n < 300*recordedRanks || distrusted < 50*recordedRanks {
		t.Errorf("%d times and %d distrusted: the test tests little", n, distrusted)
	}
	job := profile.NewJob()
	own := map[uint64][]float64{}
	for name, f := range files {
		text, _ := os.ReadFile(name)
		if err := job.Recorder(name, bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		for _, call := range f.Comms[0].Calls {
			for _, time := range call.Times {
				own[call.Bytes] = append(own[call.Bytes], float64(time[1])/1e3)
			}
		}
	}
	p, err := job.Profile(0)
	if err != nil {
		t.Fatal(err)
	}
	true := map[uint64]float64{1 << 20: 70, 1 << 24: 400, 1 << 22: 150, 1<<24 + 1: 230}
	for _, e := range p.Entries {
		bytes := e.Bytes
		if e.Coll == nccl.CollReduceScatter {
			bytes++ // of the same size as an allreduce
		}
		want, ok := true[bytes]
		if !ok {
			continue
		}
		delete(true, bytes)
		if math.Abs(e.Micros/want-1) > 0.02 {
			t.Errorf("%s of %d: %.1f us (true: %.1f)", e.Coll, e.Bytes, e.Micros, want)
		}
		if e.Algo != nccl.AlgoRing || e.Proto != nccl.ProtoSimple || e.Channels != 4 || e.Nodes != 2 || e.Ranks != recordedRanks {
			t.Errorf("%+v", e)
		}
		slices.Sort(own[e.Bytes])
		if one := own[e.Bytes][len(own[e.Bytes])/2]; one < want+50 {
			t.Errorf("%s of %d: one rank's own view is %.1f us: the ranks do not come apart", e.Coll, e.Bytes, one)
		}
	}
	if len(true) > 0 {
		t.Errorf("no time of %v", true)
	}
}

// After a capture no window opens or closes, and no time is taken from the stamps of replays.
func TestRecordedGraphs(t *testing.T) {
	t.Parallel()
	for _, at := range []int{100, 3000} { // in a window and out of one
		files, truth := recordJob(t, built, fmt.Sprint("RECORD_GRAPHS=", at))
		if n, _ := trusted(t, files, truth); n == 0 && at == 3000 || n > recordedRanks*100 && at == 100 {
			t.Errorf("a capture at %d: %d times", at, n)
		}
	}
}

// A window is closed for good by a group of broadcasts with several roots, and profilers of NCCL 2.27 count calls only.
func TestRecordedLittle(t *testing.T) {
	dir := t.TempDir()
	log := scenario(t, built.scenarios, built.so, "recorded_little", "NCCL_TUNER_RECORD="+dir, "NCCL_TUNER_RECORD_KERNELS=1")
	for _, want := range []string{"INFO TUNER/Go: communicator 0x77: rank 0 of 2 is recorded to " + dir, "WARN TUNER/Go: communicator 0x77: kernels are timed no more: it makes groups of broadcasts", "profiler ABI v4"} {
		if !slices.ContainsFunc(log, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("no line %q in %q", want, log)
		}
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 1 {
		t.Fatal(names)
	}
	text, _ := os.ReadFile(names[0])
	f, err := record.Read(names[0], text)
	if err != nil || len(f.Comms) != 2 {
		t.Fatal(err, f)
	}
	want := []record.Call{{Coll: nccl.CollReduce, Bytes: 8 << 10, Algo: "collnet_chain", Proto: "simple", Channels: 2, Calls: 2000}, {Coll: nccl.CollAllReduce, Bytes: 8 << 10, Channels: 2, Calls: 1}}
	slices.SortFunc(f.Comms[1].Calls, func(a, b record.Call) int { return int(b.Calls) - int(a.Calls) })
	if got := f.Comms[1].Calls; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
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
	if strings.Count(log, "communicator 0x123 of 8 ranks on 1 node (ABI v4)") != 1 || strings.Count(log, "communicator of 8 ranks on 1 node (ABI v4)") != 1 ||
		strings.Count(log, "communicator of 16 ranks on 1 node (ABI v4)") != 1 {
		t.Error(log)
	}
}
