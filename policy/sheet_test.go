package policy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A sheet finds each field where it is, whatever stands around it.
func TestSheet(t *testing.T) {
	text := "\ufeff allreduce ,0,\"1M\",ring,ll,-1,2,16\r\n\r\n  # tunefit\r\n,,,,\r\nallgather,0,inf,tree,\"simple\n" +
		"\",-1,2,16,4"
	s, err := ReadSheet([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line         int
		column       string
		number       int
		raw, without string
	}{
		{1, "collective", 1, "allreduce", "allreduce"},
		{1, "max_bytes", 3, `"1M"`, "1M"},
		{1, "ranks", 8, "16", "16"},
		{1, "pipe_ops", 0, "", ""},
		{1, "comment", 0, "", ""},
		{5, "collective", 1, "allgather", "allgather"},
		{5, "protocol", 5, "\"simple\n\"", "simple"},
		{5, "pipe_ops", 9, "4", "4"},
		{3, "collective", 0, "", ""},
	} {
		number, at := s.Field(c.line, c.column)
		if raw := text[at.Start:at.End]; number != c.number || raw != c.raw || s.String(c.line, c.column) != c.without {
			t.Errorf("line %d, %s: field %d is %q, in short %q; want %d, %q, %q", c.line, c.column, number, raw,
				s.String(c.line, c.column), c.number, c.raw, c.without)
		}
	}
	if row, ok := s.Row(5); !ok || text[row.Start:row.End] != text[bytes.Index([]byte(text), []byte("allgather")):] {
		t.Errorf("%v %v", row, ok)
	}
	first, ok := s.Row(1)
	if !ok || text[first.Start:first.End] != " allreduce ,0,\"1M\",ring,ll,-1,2,16\r\n" {
		t.Errorf("%q", text[first.Start:first.End])
	}
}

func TestSheetReplace(t *testing.T) {
	s, err := ReadSheet([]byte("allreduce,0,inf,ring,ll,-1,2,16\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, algo := s.Field(1, "algorithm")
	_, proto := s.Field(1, "protocol")
	if got, err := s.Replace(map[Span]string{proto: "simple", algo: "tree"}); err != nil ||
		string(got) != "allreduce,0,inf,tree,simple,-1,2,16\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := s.Replace(map[Span]string{proto: "simple", {algo.Start, proto.End}: ""}); err == nil {
		t.Error("spans that overlap were replaced")
	}
}

// Whatever ReadCSV accepts has a sheet with the fields of its rules.
func FuzzReadSheet(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.csv")
	for _, file := range append(files, "../configs/policies/example.csv", "../configs/policies/headerless.csv") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("\ufeffallreduce,0,inf,ring,ll,-1,2,16\r\n \t# x\r\n\"allreduce\",0,inf,\"ring\n\",ll,-1,2,16"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadCSV("fuzz.csv", text)
		if err != nil {
			return
		}
		s, err := ReadSheet(text)
		if err != nil {
			t.Fatal(err)
		}
		last := 0
		for _, r := range p.Rules {
			row, ok := s.Row(r.Line)
			if !ok || row.Start < last || row.End <= row.Start {
				t.Fatalf("line %d: %+v after %d", r.Line, row, last)
			}
			last = row.End
			if coll := s.String(r.Line, "collective"); r.Coll >= 0 {
				if c, err := nccl.Colls.Parse(coll); err != nil || c != r.Coll {
					t.Fatalf("line %d: %q is not %s", r.Line, coll, r.Coll)
				}
			}
		}
		same, err := s.Replace(nil)
		if err != nil || !bytes.Equal(same, text) {
			t.Fatal(fmt.Errorf("nothing replaced, and yet: %q, %w", same, err))
		}
	})
}
