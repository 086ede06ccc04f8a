package bench

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

func seed(f *testing.F, patterns ...string) {
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
}

// usable checks what every reader promises of its samples, and that they survive
// being written and read again.
func usable(t *testing.T, r *Result) {
	t.Helper()
	total := 0
	for _, n := range r.Labels {
		total += n
	}
	if total != len(r.Samples) {
		t.Errorf("%d labels counted for %d samples", total, len(r.Samples))
	}
	for _, s := range r.Samples {
		if !s.Coll.IsAsked() || s.Bytes == 0 || !(s.Micros > 0) || math.IsInf(s.Micros, 0) || s.Ranks < 0 ||
			s.Nodes < 0 || s.Channels < 0 {
			t.Fatalf("unusable sample %+v", s)
		}
	}
	for _, rej := range r.Rejected {
		if rej.Count <= 0 || rej.Reason == "" {
			t.Fatalf("rejection %+v", rej)
		}
	}
}

func FuzzReadText(f *testing.F) {
	seed(f, "testdata/*.txt")
	f.Fuzz(func(t *testing.T, text []byte) {
		if looksLikeCSV(text) || bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
			t.Skip()
		}
		if r, err := Read(bytes.NewReader(text), "x.txt", Options{}); err == nil {
			usable(t, r)
		}
	})
}

func FuzzReadJSON(f *testing.F) {
	seed(f, "testdata/*.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := Read(bytes.NewReader(append([]byte("{"), text...)), "x.json", Options{}); err == nil {
			usable(t, r)
		}
		if r, err := Read(bytes.NewReader(text), "x.json", Options{}); err == nil {
			usable(t, r)
		}
	})
}

func FuzzReadCSV(f *testing.F) {
	seed(f, "testdata/*.csv")
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(bytes.NewReader(text), "x.csv", Options{})
		if err != nil || r.Format != formatSweep {
			return
		}
		usable(t, r)
		var written bytes.Buffer
		if err := WriteTidy(&written, r.Samples); err != nil {
			t.Fatal(err)
		}
		again, err := Read(bytes.NewReader(written.Bytes()), "y.csv", Options{})
		if len(r.Samples) == 0 {
			return
		}
		if err != nil || !reflect.DeepEqual(again.Samples, r.Samples) {
			t.Fatalf("%v: written and read again\n%+v, want\n%+v\n%s", err, again, r, written.Bytes())
		}
	})
}

func benchmarkRead(b *testing.B, name string, more ...hostile.Text) {
	hostile.Benchmark(b, func(text []byte) error {
		r, err := Read(bytes.NewReader(text), name, Options{})
		if err != nil {
			return err
		}
		var said error // it is bounded, too
		for _, n := range r.Notes {
			said = errors.Join(said, errors.New(n.String()))
		}
		return said
	}, more...)
}

func BenchmarkWorstReadText(b *testing.B) {
	const (
		start   = "# Collective test starting: all_reduce_perf\n"
		setting = "# nThread 1 nGpus 8 minBytes 1 maxBytes 99999999 step: 1(bytes) iters: 1%d\n"
		columns = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
		comm    = "h:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1\n"
		row     = "1024 256 float sum -1 10.0 1.0 1.0 0 10.0 1.0 1.0 0\n"
		failed  = "h: Test failure\n"
	)
	lines := func(unit string) string { return string(hostile.Text{Unit: unit}.Of(1 << 17)) }
	benchmarkRead(b, "x.txt",
		// Variables and commands on one line.
		hostile.Text{Unit: "ALGO "}, hostile.Text{Unit: "ALGO="}, hostile.Text{Unit: "NCCL_ALGO=x,"},
		hostile.Text{Unit: "a_perf ALGO "}, hostile.Text{Unit: "unset NCCL_"},
		// Hosts that a line of the log may begin with.
		hostile.Text{Unit: "h%d:1:1 NCCL INFO \n- x%d:1:1 NCCL INFO \n"},
		hostile.Text{Head: lines("h%d:1:1 NCCL INFO \n"), Unit: "- x:1:1 NCCL INFO \n"},
		// Runs, each with the devices of the one before; and what they were to measure.
		hostile.Text{Head: lines("# Rank %d Group 0 Pid 1 on h%d device 0 [0] x%d\n"), Unit: row + "NCCL_ALGO=%d\n"},
		hostile.Text{Head: setting + columns + start + comm, Unit: row, Tail: failed},
		hostile.Text{Head: "NCCL_ALGO=ring\nNCCL_PROTO=ll\n", Unit: start + setting + comm + failed},
		hostile.Text{Unit: setting + row},
		// Choices by NCCL's log, by ours, and what is not offered.
		hostile.Text{Head: setting + columns, Unit: "1024 Bytes -> Algo 1 proto 1 channel{Lo..Hi}={0..%d}\n" + row},
		hostile.Text{Head: start + comm, Unit: row + "TUNER/Go: decision coll=allreduce size=%d by=x pipe_ops=1\n"},
		hostile.Text{Unit: start + "h:1:1 NCCL INFO x nRanks 2%d nNodes 1 \nh:1:1 NCCL INFO via SHM/\n" + row},
		// Rows that are cut, and what stands between.
		hostile.Text{Unit: "1 1 x 1\n1\n1\n"}, hostile.Text{Head: "1 1 x ", Unit: "1\n"}, hostile.Text{Head: "1", Unit: ": Test "},
		hostile.Text{Head: "Input: {", Unit: "xnBytes = "}, hostile.Text{Head: "# Reducing maxBytes", Unit: "x"},
		hostile.Text{Unit: "[1] "}, hostile.Text{Unit: "TUNER/Go: decision "},
		hostile.Text{Head: "TUNER/Plugin: Using ", Unit: "x", Tail: " (v5)\n" + row},
	)
}

func BenchmarkWorstReadJSON(b *testing.B) {
	benchmarkRead(b, "x.json",
		hostile.Text{Head: `{"results":`, Unit: "["}, hostile.Text{Head: `{"results":[`, Unit: "{},"},
		hostile.Text{Head: `{"results":[{"size":`, Unit: "1"}, hostile.Text{Head: `{"args":[`, Unit: `"a_perf",`, Tail: `""]}`},
		hostile.Text{Unit: `{"results":[{"size":1,"out_of_place":{"time":1}}]}`},
		hostile.Text{Unit: `{"config":{"nthreads":1,"ngpus":1,"iterations":%d},"results":[]}`},
	)
}

func BenchmarkWorstReadCSV(b *testing.B) {
	const header = "collective,size_bytes,time_us,algorithm,protocol,channels,source,nccl_version\n"
	benchmarkRead(b, "x.csv",
		hostile.Text{Head: header, Unit: "allreduce,1,1,ring,ll,1,x,x%d\n"},
		hostile.Text{Head: header, Unit: "x%d,1,1,ring,ll,1,x,x\n"}, hostile.Text{Head: header, Unit: "a\"\n"},
		hostile.Text{Head: header, Unit: "x", Tail: ",1,1,ring,ll,1,x,x\n"},
		hostile.Text{Head: header + "allreduce,", Unit: "x", Tail: ",1,ring,ll,1,x,x\n"},
		hostile.Text{Head: header, Unit: ",1,1,,,,,\n"},
		hostile.Text{Head: "collective,size_bytes,time_us,", Unit: "x"},
		hostile.Text{Head: "collective,size_bytes,time_us", Unit: ",x%d"},
		hostile.Text{Head: "collective,size_bytes", Unit: ",x%d"},
	)
}
