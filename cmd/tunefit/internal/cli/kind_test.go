package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// What a file is shows in its beginning: the project's own files and logs of all ages.
func TestKindsOfFiles(t *testing.T) {
	for pattern, want := range map[string]Kind{
		"../../../../configs/policies/*.csv":        KindPolicy,
		"../../../../configs/policies/*.yaml":       KindTests,
		"../../../../configs/sweeps/*.csv":          KindSweep,
		"../../../../configs/topo/*.xml":            KindTopology,
		"../../../../bench/testdata/launcher_*.txt": KindLog,
		"../../../../bench/testdata/*.json":         KindResults,
		"../../../../docs/testdata/record/*.json":   {is: "what a job found out about its policy"},
		"../../../../docs/testdata/learn/*/*.json":  KindLearned,
		"../../../../docs/testdata/recorded/*.json": KindRecord,
		"../../../../bench/testdata/*.csv":          KindSweep,
		"../../../../docs/measured/*.csv":           KindSweep,
		"../../../../bench/testdata/formats/*.txt":  KindLog,
		"../../../../bench/testdata/formats/*.json": KindResults,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no files (%v)", pattern, err)
		}
		for _, file := range files {
			if got, err := new(Inputs).Kind(file); got.is != want.is || err != nil {
				t.Errorf("%s is %q, want %q (%v)", file, got.is, want.is, err)
			}
		}
	}
}

// A mistaken guess would keep a good file from being read.
func TestKindsOfTexts(t *testing.T) {
	for text, want := range map[string]Kind{
		"":                            KindUnknown,
		"hello\n":                     KindUnknown,
		"collective,algorithm,when\n": KindPolicy,
		"# a comment\n\nallreduce,0,inf,ring,simple,-1,-1,-1\n":                       KindPolicy,
		"\ufeffAllReduce;0;1024;ring;ll;1;2;16\n":                                     KindPolicy,
		"Coll\tAlgo\tMin Bytes\n":                                                     KindPolicy,
		"size_bytes,time_us\n":                                                        KindSweep,
		"\"size_bytes\";\"time_us\"\n":                                                KindSweep,
		"size,algo,proto,nchannels,latency_us\n":                                      KindSweep,
		"policy: see below\nnode7:12:12 [0] NCCL INFO x\n":                            KindLog,
		"job 7 on host7\n[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 8\n":              KindLog,
		"     1048576        262144     float     sum      -1    41.50   25.27 25.27": KindLog,
		"policy: p.csv\ntests:\n  - name: x\n":                                        KindTests,
		"<job 12>\n":                                                                  {is: "XML, but no topology: it has no <system>"},
		"<graphs version=\"1\"/>\n":                                                   {is: "XML, but no topology: it has no <system>"},
		"<?xml version=\"1.0\"?>\n<system version=\"1\">":                             KindTopology,
		"<!DOCTYPE html>":                                                             {is: "a page for a browser"},
		"<< EOF\n":                                                                    KindUnknown,
		"{\"nodes\": {\"1\": {\"lat\": [], \"bw\": []}}}":                             KindTuning,
		"{\"a\": 1}":                                    kindJSON,
		"{\"rules\": [{\"filter\": {}}]}":               KindPolicy,
		"allgather,*,ring,ll128,-1,*,*\n":               KindPolicy,
		"\x7fELF\x02\x01\x01\x00\x00":                   {is: "not a text"},
		"\x28\xb5\x2f\xfd\x04":                          KindPacked,
		"\xff\xfec\x00o\x00":                            KindUnknown,
		"a log with a zero\n" + string(make([]byte, 3)): {is: "not a text"},
	} {
		if got := Sniff([]byte(text)).Kind; got.is != want.is {
			t.Errorf("%q is %q, want %q", text, got.is, want.is)
		}
	}
	if _, err := new(Inputs).Kind(filepath.Join(t.TempDir(), "absent")); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}
