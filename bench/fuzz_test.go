package bench

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
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

// Lines of our own log, which others' programs may have cut or mixed.
func FuzzDecision(f *testing.F) {
	f.Add([]byte("n1: TUNER/Go: communicator 0x6f: allreduce 1KiB, 1 pipelined: ring/ll 2 ch instead of tree/ll, " +
		"decided by tuner.csv:3"))
	f.Add([]byte("TUNER/Go: allgather 1, 99999999999999999999 pipelined: NCCL's choice, decided by NCCL"))
	f.Add([]byte("TUNER/Go: NCCL offers for allreduce: ring/ll, ring/simple, x/y"))
	f.Fuzz(func(t *testing.T, line []byte) {
		d, ok, err := ParseDecision(line)
		if err != nil && !ok {
			t.Errorf("%q is no decision, and wrong: %v", line, err)
		}
		if ok && err == nil && (d.Coll < 0 || int(d.Coll) >= nccl.NumColls || d.PipeOps < 0 || d.Channels < 0) {
			t.Errorf("%q: %+v", line, d)
		}
		if _, cells, ok := parseOffers(line); ok != (len(cells) > 0) {
			t.Errorf("%q: %v", line, cells)
		}
	})
}
