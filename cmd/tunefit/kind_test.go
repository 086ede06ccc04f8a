package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What a file is shows in its beginning: the project's own files and logs of all ages.
func TestKindsOfFiles(t *testing.T) {
	for pattern, want := range map[string]kind{
		"../../configs/policies/*.csv":         kindPolicy,
		"../../configs/policies/*.yaml":        kindTests,
		"../../configs/sweeps/*.csv":           kindSweep,
		"../../configs/topo/*.xml":             kindTopology,
		"../../configs/mesh/*.csv":             kindMesh,
		"../../configs/tuning/*.json":          kindTuning,
		"../../bench/testdata/launcher_*.txt":  kindLog,
		"../../bench/testdata/*.json":          kindResults,
		"../../bench/testdata/*.csv":           kindSweep,
		"../../../shared/data/sweeps/*.csv":    kindSweep,
		"../../../shared/data/formats/*.txt":   kindLog,
		"../../../shared/data/formats/*.json":  kindResults,
		"../../../shared/data/formats/*.csv":   kindSweep,
		"../../../shared/data/debuglogs/*.log": kindLog,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 && filepath.IsLocal(pattern[len("../../"):]) {
			t.Errorf("%s: no files (%v)", pattern, err)
		}
		for _, file := range files {
			if got, err := fileKind(file); got != want || err != nil {
				t.Errorf("%s is %q, want %q (%v)", file, kinds[got].is, kinds[want].is, err)
			}
		}
	}
}

// A mistaken guess would keep a good file from being read.
func TestKindsOfTexts(t *testing.T) {
	for text, want := range map[string]kind{
		"":                            kindUnknown,
		"hello\n":                     kindUnknown,
		"collective,algorithm,when\n": kindPolicy,
		"# a comment\n\nallreduce,0,inf,ring,simple,-1,-1,-1\n":                       kindPolicy,
		"\ufeffAllReduce;0;1024;ring;ll;1;2;16\n":                                     kindPolicy,
		"Coll\tAlgo\tMin Bytes\n":                                                     kindPolicy,
		"size_bytes,time_us\n":                                                        kindSweep,
		"\"size_bytes\";\"time_us\"\n":                                                kindSweep,
		"size,algo,proto,nchannels,latency_us\n":                                      kindSweep,
		"node,nic,address,gbit_s\n":                                                   kindMesh,
		"policy: see below\nnode7:12:12 [0] NCCL INFO x\n":                            kindLog,
		"job 7 on host7\n[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 8\n":              kindLog,
		"     1048576        262144     float     sum      -1    41.50   25.27 25.27": kindLog,
		"policy: p.csv\ntests:\n  - name: x\n":                                        kindTests,
		"<job 12>\n":                                                                  kindXML,
		"<graphs version=\"1\"/>\n":                                                   kindXML,
		"<?xml version=\"1.0\"?>\n<system version=\"1\">":                             kindTopology,
		"<!DOCTYPE html>":                                                             kindPage,
		"<< EOF\n":                                                                    kindUnknown,
		"{\"a\": 1}":                                                                  kindJSON,
		"\x7fELF\x02\x01\x01\x00\x00":                                                 kindBinary,
		"\x28\xb5\x2f\xfd\x04":                                                        kindPacked,
		"\xff\xfec\x00o\x00":                                                          kindUnknown,
		"a log with a zero\n" + string(make([]byte, 3)):                               kindBinary,
	} {
		if got := sniff([]byte(text)).kind; got != want {
			t.Errorf("%q is %q, want %q", text, kinds[got].is, kinds[want].is)
		}
	}
	for _, k := range []kind{kindPolicy, kindSweep, kindLog, kindResults, kindModel, kindTuning, kindTopology, kindMesh, kindTests, kindPage, kindXML, kindJSON, kindPacked, kindBinary} {
		if kinds[k].is == "" {
			t.Errorf("kind %d has no words", k)
		}
	}
	if _, err := fileKind(filepath.Join(t.TempDir(), "absent")); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}
