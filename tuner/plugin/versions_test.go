//go:build cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each version of the policy and of the model says by its decisions which one it is:
// the rows by what happens to allgather and reducescatter, the model by allreduce.

// maxVersion is the last version of either that can be told from the others.
const maxVersion = 3 * 60

var protocols = []string{"ll", "ll128", "simple"}

// channelsOf and protoOf tell versions from 1 on apart.
func channelsOf(v int) int { return 1 + (v-1)%60 }
func protoOf(v int) int    { return (v - 1) / 60 }

// chunkOf is the chunk size of allgather, in units; every third version has one.
func chunkOf(v int) int {
	if v%3 != 0 {
		return 0
	}
	return 1 + v%50
}

func policyText(v int) []byte {
	chunk := ""
	if c := chunkOf(v); c > 0 {
		chunk = fmt.Sprint(c * chunkUnit)
	}
	row := fmt.Sprintf("ring,%s,%d", protocols[protoOf(v)], channelsOf(v))
	return fmt.Appendf(nil, "# version %d\ncollective,algorithm,protocol,channels,chunk_bytes\nallgather,%s,%s\n"+
		"reducescatter,%s,\n", v, row, chunk, row)
}

// modelText is a model for 8 ranks of 1 node, by which the tree with one number of
// channels is always best.
func modelText(v int) []byte {
	return fmt.Appendf(nil,
		`{"format": "nccl-tuner-go cost model", "version": 3, "provenance": {}, "groups": [{"collective": "allreduce",
"nodes": 1, "ranks": 8, "noise": 0.01, "repetition_pairs": 9,
"default": [{"bytes": 1024, "us": 80}, {"bytes": 33554432, "us": 9000}],
"curves": [{"algorithm": "tree", "protocol": "%s", "channels": %d, "measured": [[1024, 20], [33554432, 2000]]}]}]}
`, protocols[protoOf(v)], channelsOf(v))
}

const (
	allGather     = 2
	reduceScatter = 3
	allReduce     = 4
	numProtos     = 3
	ringRow       = 1
)

// byPolicy is the version of the rows that decided a call; 0: none.
func (o outcome) byPolicy() int {
	if o.Coll == allReduce || o.Channels == 0 || o.Cell/numProtos != ringRow {
		return 0
	}
	return int(o.Cell%numProtos)*60 + int(o.Channels)
}

// byModel is the version of the model that decided a call; 0: none.
func (o outcome) byModel() int {
	if o.Coll != allReduce || o.Channels == 0 || o.Cell/numProtos != 0 {
		return 0
	}
	return int(o.Cell%numProtos)*60 + int(o.Channels)
}

// write replaces a file by a rename, as editors and configuration systems do.
func write(t testing.TB, path string, text []byte) {
	t.Helper()
	temp := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	if err := os.WriteFile(temp, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, path); err != nil {
		t.Fatal(err)
	}
}

// writeInPlace changes the file while others read it.
func writeInPlace(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// decided waits until the latest calls of a context on all processes are decided by
// the version of the policy.
func (j *job) decided(context, version int) {
	j.Helper()
	for _, r := range j.ranks {
		eventually(j, fmt.Sprintf("rank %d decides by version %d", r.id, version), func() bool {
			return r.latest(context) == version
		})
	}
}

// latest is the version of the rows that the latest call was decided by.
func (r *rank) latest(context int) int {
	calls := r.calls(context, max(0, r.count(context)-40))
	for _, c := range slices.Backward(calls) {
		if c.Coll != allReduce {
			return c.byPolicy()
		}
	}
	return -1
}

// compare checks that all ranks decided alike, call by call, and returns what they
// decided; a rank that ended early is compared as far as it got.
func (j *job) compare(contexts ...int) []call {
	j.Helper()
	var longest []call
	for _, r := range j.ranks {
		for _, context := range contexts {
			calls := r.calls(context, 0)
			for i := range min(len(calls), len(longest)) {
				if calls[i].outcome != longest[i].outcome {
					j.Errorf("rank %d, context %d, call %d: %+v, others have %+v", r.id, context, i, calls[i].outcome,
						longest[i].outcome)
					break
				}
			}
			if len(calls) > len(longest) {
				longest = calls
			}
		}
	}
	for i, c := range longest {
		if c.Result != 0 {
			j.Errorf("call %d returned %d", i, c.Result)
		}
	}
	return longest
}

// checkVersions checks that calls are decided by versions that were saved, in the
// order of the saves, and return which.
func (j *job) checkVersions(calls []call, saved []int, by func(outcome) int, of ...uint8) (seen []int) {
	j.Helper()
	return j.checkSaves(calls, saved, nil, by, of...)
}

// checkSaves is checkVersions where the files may break right after some of the saves. Not every
// rank has read these, so an older version that was still pending may come into force after one.
func (j *job) checkSaves(calls []call, saved, broken []int, by func(outcome) int, of ...uint8) (seen []int) {
	j.Helper()
	at := 0
	for i, c := range calls {
		if !slices.Contains(of, c.Coll) {
			continue
		}
		v := by(c.outcome)
		next := len(saved)
		if n := slices.Index(saved[at:], v); n >= 0 {
			next = at + n
		} else if slices.Contains(broken, saved[at]) {
			for next = at; next >= 0 && saved[next] != v; next-- {
			}
		}
		if next < 0 || next == len(saved) {
			j.Errorf("call %d is decided by version %d; that was not saved after version %d", i, v, saved[at])
			return seen
		}
		if next != at || len(seen) == 0 {
			seen = append(seen, v)
		}
		at = next
	}
	return seen
}

// checkChunks checks that every chunk size is one of the version that is in force.
func (j *job) checkChunks(calls []call) {
	j.Helper()
	// What decides a call to allreduce is seen by its neighbours: the version before,
	// or the one after.
	after := make([]int, len(calls))
	for i, v := len(calls)-1, 0; i >= 0; i-- {
		if calls[i].Coll != allReduce {
			v = calls[i].byPolicy()
		}
		after[i] = v
	}
	before := 0
	for i, c := range calls {
		if c.Coll != allReduce {
			before = c.byPolicy()
		}
		want := 0
		if c.Coll == allGather {
			want = chunkOf(before)
		}
		if int(c.Chunk) != want {
			j.Errorf("call %d, decided by version %d: chunk %d, want %d", i, before, c.Chunk, want)
			return
		}
		if o := int(c.Other); o != 0 && o != chunkOf(before) && o != chunkOf(after[i]) {
			j.Errorf("call %d, decided by version %d: the chunk of another cell is %d", i, before, o)
			return
		}
	}
}

// policyFile writes version v and returns the settings that name it.
func policyFile(t testing.TB, v int) (path string, env []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "policy.csv")
	write(t, path, policyText(v))
	return path, []string{"NCCL_TUNER_CONFIG_FILE=" + path}
}

func args(format string, a ...any) []string { return strings.Fields(fmt.Sprintf(format, a...)) }
