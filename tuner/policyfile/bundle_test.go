package policyfile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// A content from the ranks' store may be anything: it is refused, or comes back as
// the same bundle.
func FuzzBundle(f *testing.F) {
	for _, b := range []Bundle{{}, {Policy: Source{"p.csv", []byte(rows(1))}},
		{Policy: Source{"p.csv", []byte(rows(2))}, Model: Source{"m.json", []byte("{}")}}} {
		f.Add(b.Encode())
	}
	f.Add([]byte(bundleFormat + `{"PolicyLen":-1,"ModelLen":1}` + "\n"))
	f.Add([]byte(bundleFormat + `{"PolicyLen":9223372036854775807,"ModelLen":9223372036854775807}` + "\n"))
	f.Add([]byte(bundleFormat + `{"PolicyLen":9223372036854775807,"ModelLen":9223372036854775807,"AddedLen":2}` + "\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		b, err := DecodeBundle(content)
		if err != nil {
			return
		}
		again, err := DecodeBundle(b.Encode())
		if err != nil || again.Policy.Name != b.Policy.Name || string(again.Policy.Text) != string(b.Policy.Text) ||
			again.Model.Name != b.Model.Name || string(again.Model.Text) != string(b.Model.Text) {
			t.Fatalf("%+v comes back as %+v, %v", b, again, err)
		}
	})
}

func BenchmarkWorstBundle(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		_, err := DecodeBundle(text)
		return err
	},
		hostile.Text{Head: bundleFormat, Unit: "["}, hostile.Text{Head: bundleFormat + "{}\n", Unit: "x"},
		hostile.Text{Head: bundleFormat + `{"PolicyLen":`, Unit: "1", Tail: "}\n"},
	)
}

func TestBundle(t *testing.T) {
	for _, b := range []Bundle{
		{},
		{Policy: Source{"p.csv", []byte("a,b\nc\n")}},
		{Model: Source{"m.json", []byte("{}")}},
		{Policy: Source{"p\n.csv", []byte{0, 255, '\n'}}, Model: Source{"m", nil}},
	} {
		content := b.Encode()
		got, err := DecodeBundle(content)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(b) {
			t.Errorf("%v comes back as %v, %v", b, got, err)
		}
		for _, damaged := range [][]byte{content[:len(content)-1], append(slices.Clone(content), 'x'), content[1:]} {
			if _, err := DecodeBundle(damaged); err == nil {
				t.Errorf("%q passes for a bundle", damaged)
			}
		}
	}
}
