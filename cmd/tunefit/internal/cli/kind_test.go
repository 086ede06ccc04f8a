package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// What a file is shows in its beginning: the project's own files and logs of all ages.
func TestKindsOfFiles(t *testing.T) {
	for pattern, want := range map[string]Sniffed{
		"../../../../configs/policies/*.csv":        sniffedPolicy,
		"../../../../configs/policies/*.yaml":       {is: "tests of a policy"},
		"../../../../configs/sweeps/*.csv":          sniffedSweep,
		"../../../../configs/topo/*.xml":            {is: "a topology"},
		"../../../../bench/testdata/launcher_*.txt": sniffedLog,
		"../../../../bench/testdata/*.json":         sniffedResults,
		"../../../../docs/testdata/record/*.json":   {is: "what a job found out about its policy"},
		"../../../../docs/testdata/learn/*/*.json":  {is: "what a job has learned"},
		"../../../../docs/testdata/recorded/*.json": {is: "a file of the library's recorder"},
		"../../../../bench/testdata/*.csv":          sniffedSweep,
		"../../../../docs/measured/*.csv":           sniffedSweep,
		"../../../../bench/testdata/formats/*.txt":  sniffedLog,
		"../../../../bench/testdata/formats/*.json": sniffedResults,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no files (%v)", pattern, err)
		}
		for _, file := range files {
			in, err := new(Inputs).openAny(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := in.kind; got.is != want.is {
				t.Errorf("%s is %q, want %q", file, got.is, want.is)
			}
			in.Close()
		}
	}
}

// A mistaken guess would keep a good file from being read.
func TestKindsOfTexts(t *testing.T) {
	for text, want := range map[string]Sniffed{
		"":                            {},
		"hello\n":                     {},
		"collective,algorithm,when\n": sniffedPolicy,
		"# a comment\n\nallreduce,0,inf,ring,simple,-1,-1,-1\n":                       sniffedPolicy,
		"\ufeffAllReduce;0;1024;ring;ll;1;2;16\n":                                     sniffedPolicy,
		"Coll\tAlgo\tMin Bytes\n":                                                     sniffedPolicy,
		"size_bytes,time_us\n":                                                        sniffedSweep,
		"\"size_bytes\";\"time_us\"\n":                                                sniffedSweep,
		"size,algo,proto,nchannels,latency_us\n":                                      sniffedSweep,
		"policy: see below\nnode7:12:12 [0] NCCL INFO x\n":                            sniffedLog,
		"job 7 on host7\n[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 8\n":              sniffedLog,
		"     1048576        262144     float     sum      -1    41.50   25.27 25.27": sniffedLog,
		"policy: p.csv\ntests:\n  - name: x\n":                                        {is: "tests of a policy"},
		"<p align=center>Two nodes</p>\n\n[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 8": {Kind: KindMeasurements,
			is: "a log of measurements", use: makesSweep},
		"[](){#nccl}\n# Two nodes\n":                      {},
		"<job 12>\n":                                      {is: "XML, but no topology: it has no <system>"},
		"<graphs version=\"1\"/>\n":                       {is: "XML, but no topology: it has no <system>"},
		"<?xml version=\"1.0\"?>\n<system version=\"1\">": {is: "a topology"},
		"<!DOCTYPE html>":                                 {is: "a page for a browser"},
		"<< EOF\n":                                        {},
		"{\"nodes\": {\"1\": {\"lat\": [], \"bw\": []}}}": {is: "NCCL's estimates, as tunefit topo tuning --json prints them"},
		"{\"a\": 1}":                                      sniffedJSON,
		"{\"rules\": [{\"filter\": {}}]}":                 sniffedPolicy,
		"allgather,*,ring,ll128,-1,*,*\n":                 sniffedPolicy,
		"\x7fELF\x02\x01\x01\x00\x00":                     {is: "not a text"},
		"\x28\xb5\x2f\xfd\x04":                            sniffedPacked,
		"\xff\xfec\x00o\x00":                              {},
		"a log with a zero\n" + string(make([]byte, 3)):   {is: "not a text"},
	} {
		if got := Sniff([]byte(text)); got.is != want.is {
			t.Errorf("%q is %q, want %q", text, got.is, want.is)
		}
	}
	if _, err := new(Inputs).Kind(filepath.Join(t.TempDir(), "absent")); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}
