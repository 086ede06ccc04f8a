package cli

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// Input of any kind, packed or not, comes from the standard input as it was put there.
func FuzzInput(f *testing.F) {
	f.Add([]byte("collective,bytes\n"))
	f.Add([]byte("\x1f\x8b"))
	f.Add([]byte("\xff\xfe{\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		w.Write(text)
		w.Close()
		kind := Sniff(text[:min(len(text), sniffBytes)]).Kind
		for _, in := range [][]byte{text, packed.Bytes()} {
			got, err := NewInputs(bytes.NewReader(in)).Text(StandardName, kind)
			switch {
			case err != nil && !strings.Contains(err.Error(), "stdin") && !strings.Contains(err.Error(), "standard input") &&
				!strings.HasPrefix(err.Error(), StandardName+": "):
				t.Errorf("the error names no input: %v", err)
			case err == nil && !bytes.Equal(got, text) && !bytes.HasPrefix(in, []byte("\x1f\x8b")):
				t.Errorf("%q comes back as %q", text, got)
			}
		}
	})
}

func BenchmarkWorstInput(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		kind := Sniff(text).Kind
		_, err := NewInputs(bytes.NewReader(text)).Text(StandardName, kind)
		return err
	},
		hostile.Text{Unit: ";"}, hostile.Text{Unit: "\t"}, hostile.Text{Unit: "x;\n"}, hostile.Text{Unit: "1 1 int "},
		hostile.Text{Unit: "Rank    "}, hostile.Text{Unit: "tests:  "}, hostile.Text{Head: "\x1f\x8b", Unit: "x"},
	)
}
