package nccl

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// What a person writes for a size, a release, a range of releases, a configuration or a name: a value that is read
// comes back as the same when it is written, and an error names what was found.
func FuzzWords(f *testing.F) {
	for _, text := range []string{"64KiB", "1M", "2GB", "18446744073709551615", "2.30.7", "2.30", "2.28-2.30", ">=2.31",
		"<2.31", "> 2.3.1", "ring/ll128/16", "nvls_tree/simple", "AllReduce", "all_gather", "!tree", "inf"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		refused := func(err error) {
			if !strings.Contains(err.Error(), "allowed") && !strings.Contains(err.Error(), text) &&
				!strings.ContainsAny(err.Error(), `"`) {
				t.Errorf("%q: the error does not name it: %v", text, err)
			}
		}
		if n, err := ParseBytes(text); err != nil {
			refused(err)
		} else if n != Inf {
			if again, err := ParseBytes(FormatBytes(n)); err != nil || again != n {
				t.Errorf("%q is %d, written %s, read %d, %v", text, n, FormatBytes(n), again, err)
			}
		}
		if v, err := ParseVersion(text); err != nil {
			refused(err)
		} else if again, err := ParseVersion(v.String()); err != nil || again != v {
			t.Errorf("%q is %d, written %s, read %d, %v", text, v, v, again, err)
		}
		if r, err := ParseReleases(text); err != nil {
			refused(err)
		} else if again, err := ParseReleases(r.String()); r.Min >= Oldest && (err != nil || again != r) {
			t.Errorf("%q is %d, written %s, read %d, %v", text, r, r, again, err)
		}
		if c, err := ParseConfig(text); err != nil {
			refused(err)
		} else if again, err := ParseConfig(c.Label()); c.Channels > 0 && (err != nil || again != c) {
			t.Errorf("%q is %+v, written %s, read %+v, %v", text, c, c.Label(), again, err)
		}
		if c, err := Colls.Parse(text); err != nil {
			refused(err)
		} else if again, err := Colls.Parse(c.String()); err != nil || again != c {
			t.Errorf("%q is %s, read %s, %v", text, c, again, err)
		}
	})
}

// The remarks of a policy file: what is read comes back as the same when it is written.
func FuzzRemarks(f *testing.F) {
	f.Add([]byte("# tunefit:measured 2.30.7\n#tunefit:needs NCCL_MIN_CTAS=16 -- why\n# tunefit:nodes 2\n# x tunefit:ignore a,b"))
	f.Add([]byte("# simulated with NCCL 2.30.7\r\n# needs NCCL_MIN_NCHANNELS=16 in the job\n# a: not measured on 4 nodes; on 2 nodes "))
	f.Fuzz(func(t *testing.T, text []byte) {
		said := ReadRemarks(text)
		lines := []string{Remark(RemarkMeasured, said.Measured, "why"), Remark(RemarkNeeds, said.Floors.String(), ""),
			Remark(RemarkNodes, strconv.Itoa(said.Nodes), "why"), Remark(RemarkIgnore, strings.Join(said.Ignored, ","), "why")}
		if said.Simulated {
			lines = append(lines, Remark(RemarkSimulated, "", ""))
		}
		for _, under := range said.Under {
			lines = append(lines, Remark(RemarkUnder, under, ""))
		}
		said.Unknown = nil
		if again := ReadRemarks([]byte("# " + strings.Join(lines, "\n# "))); !reflect.DeepEqual(said, again) {
			t.Errorf("%+v is written\n%s\nand read %+v", said, strings.Join(lines, "\n"), again)
		}
	})
}

func BenchmarkWorstWords(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		word := string(text)
		_, err1 := ParseBytes(word)
		_, err2 := ParseVersion(word)
		_, err3 := ParseReleases(word)
		_, err4 := ParseConfig(word)
		_, err5 := Colls.Parse(word)
		MeasuredWith(word)
		return errors.Join(err1, err2, err3, err4, err5)
	},
		hostile.Text{Unit: "1."}, hostile.Text{Unit: "1", Tail: "KB"}, hostile.Text{Unit: "0", Tail: "1.1"},
		hostile.Text{Unit: "0", Tail: "2.31-2.30"}, hostile.Text{Unit: ">"}, hostile.Text{Unit: "ring/"},
		hostile.Text{Head: "ring/ll/", Unit: "1"}, hostile.Text{Unit: "2.30,"}, hostile.Text{Unit: "_"},
	)
}

func BenchmarkWorstRemarks(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		ReadRemarks(text)
		return nil
	},
		hostile.Text{Unit: "# measured with NCCL "}, hostile.Text{Head: "# measured with ", Unit: "2.30, ", Tail: "x"},
		hostile.Text{Unit: "# measured with 1 x\n"}, hostile.Text{Unit: "# needs NCCL_MIN_CTAS=1 in the job\n"},
		hostile.Text{Unit: "# needs "}, hostile.Text{Unit: "# tunefit:needs x"},
		hostile.Text{Head: "# tunefit:ignore", Unit: " x"}, hostile.Text{Unit: "# tunefit:under x\n"}, hostile.Text{Unit: "\t"},
	)
}
