package policy

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// A sheet finds each row and field, whatever stands around it.
func TestSheet(t *testing.T) {
	text := "\ufeff allreduce ,0,\"1M\",ring,ll,-1,2,16\r\n\r\n# tunefit\r\n,,,,\r\nallgather,0,inf,tree,\"simple\n" +
		"\",-1,2,16,4"
	s, err := ReadSheet([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line         int
		column, want string
	}{
		{1, "collective", "allreduce"},
		{1, "max_bytes", "1M"},
		{1, "ranks", "16"},
		{1, "pipe_ops", ""},
		{1, "comment", ""},
		{5, "collective", "allgather"},
		{5, "protocol", "simple"},
		{5, "pipe_ops", "4"},
		{3, "collective", ""},
	} {
		if got := s.Field(c.line, c.column); got != c.want {
			t.Errorf("line %d, %s: %q, want %q", c.line, c.column, got, c.want)
		}
	}
	if n, none := s.ColumnNumber("pipe_ops"), s.ColumnNumber("comment"); n != 9 || none != 0 {
		t.Errorf("columns %d and %d", n, none)
	}
	for line, want := range map[int]string{1: " allreduce ,0,\"1M\",ring,ll,-1,2,16\r\n", 3: "",
		5: "allgather,0,inf,tree,\"simple\n\",-1,2,16,4"} {
		if got := s.Row(line); got != want {
			t.Errorf("line %d: %q, want %q", line, got, want)
		}
	}
}

// unquote takes out quotes and blanks: intervals of NCCLX's rules have others in a sheet than in the file.
func unquote(text []byte) []byte {
	return []byte(strings.NewReplacer(`"`, "", " ", "", "\t", "").Replace(string(text)))
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
	f.Add([]byte("allreduce,[0,1],ring,ll,-1,(1,),*\n#\nallreduce, (1,) ,ring,ll,-1,*,8,0"))
	f.Add([]byte(`{"rules": [{"filter": {"collective": "reduce"}, "config": {"algorithm": "ring", "protocol": "ll"}}]}`))
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
		for _, r := range p.Rules {
			if row := s.Row(r.Line); row == "" || !s.json && !bytes.Contains(unquote(text), unquote([]byte(row))) {
				t.Fatalf("line %d: %q", r.Line, row)
			}
			if coll := s.Field(r.Line, "collective"); r.Coll >= 0 {
				if c, err := nccl.Colls.Parse(coll); err != nil || c != r.Coll {
					t.Fatalf("line %d: %q is not %s", r.Line, coll, r.Coll)
				}
			}
		}
	})
}

func BenchmarkWorstReadSheet(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		_, err := ReadSheet(text)
		return err
	},
		hostile.Text{Head: "collective,algorithm\n", Unit: "allreduce,ring\n"},
		hostile.Text{Head: "collective,algorithm\n", Unit: "\"\n\",ring\n"},
		hostile.Text{Head: "collective,algorithm\n", Unit: "\n", Tail: "allreduce,ring\n"},
	)
}
