package fit

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

func TestSameSamplesSameBytes(t *testing.T) {
	m := smallMachine()
	var first []byte
	for range 3 {
		file, _ := Fit(pooled(m.sweep(2, 5)), Options{})
		text, err := marshalModel(file)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
		}
		if !bytes.Equal(first, text) {
			t.Fatal("two fits of the same samples differ")
		}
	}
	read, err := model.Read("m.json", first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := marshalModel(read.File)
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("read and written again, the file differs (%v)", err)
	}
}

// Logarithm and exponential differ between machines in the last bit, and measured
// times often end in the 5 that is to be rounded.
func TestRoundsAlike(t *testing.T) {
	for k := 10_005; k < 100_000; k += 10 {
		us := float64(k) / 1000
		want := round(us, 4)
		for _, v := range []float64{math.Nextafter(us, 0), math.Nextafter(us, 100), math.Exp(math.Log(us))} {
			if got := round(v, 4); got != want {
				t.Fatalf("%.17g is rounded to %v, %v to %v", v, got, us, want)
			}
		}
	}
}

var update = flag.Bool("update", false, "write the fixtures and golden files anew")

// The fixture is a sweep of the made-up machine, the golden file the rows that it
// becomes.
func TestFixture(t *testing.T) {
	const sweepFile, rowsFile = "testdata/small.csv", "testdata/small.rows.csv"
	if *update {
		m := smallMachine()
		m.channels = []int{1, 4, 16}
		samples := m.sweep(2, 12)
		for i := range samples {
			samples[i].Micros = round(samples[i].Micros, 4)
			samples[i].Simulated = true
			samples[i].Source = "a made-up machine"
		}
		var text bytes.Buffer
		if err := bench.WriteTidy(&text, samples); err != nil {
			t.Fatal(err)
		}
		write(t, sweepFile, text.Bytes())
	}
	r, err := testlib.Measurements(sweepFile)
	if err != nil {
		t.Fatal(err)
	}
	set := pooled(r.Samples)
	if set.Simulated != set.Rows || set.Rows == 0 {
		t.Errorf("%d of %d rows are simulated, want all", set.Simulated, set.Rows)
	}
	file, _ := Fit(set, Options{})
	var got bytes.Buffer
	if err := WriteRows(&got, Rows(mustCompile(t, file)), nccl.AnyRelease); err != nil {
		t.Fatal(err)
	}
	if *update {
		write(t, rowsFile, got.Bytes())
	}
	want, err := os.ReadFile(rowsFile)
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%v\n%s\nwant, by %s:\n%s", err, got.Bytes(), rowsFile, want)
	}
	p, err := policy.ReadCSV(rowsFile, want)
	if err != nil || len(p.Rules) < 2 || len(p.Rules) > 6 {
		t.Errorf("the rows are not a short policy: %v, %d rules", err, len(p.Rules))
	}
}

// marshalModel is WriteModel into memory.
func marshalModel(file *model.File) ([]byte, error) {
	var text bytes.Buffer
	err := WriteModel(&text, file)
	return text.Bytes(), err
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each curve is a line, and the layout changes nothing but white space, whatever names hold.
func TestLayout(t *testing.T) {
	file, _ := Fit(pooled(smallMachine().sweep(2, 5)), Options{})
	file.Provenance.Files = []model.Source{{Name: "a {b.csv"}, {Name: "c}\n{\n}"}, {Name: "plain"}}
	text, err := marshalModel(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(text, []byte("{\n \"format\": ")) || !bytes.Contains(text, []byte("\n   {\"name\":\"plain\",")) {
		t.Errorf("laid out as\n%.300s", text)
	}
	for line := range bytes.Lines(text) {
		if n := bytes.Count(line, []byte(`{"algorithm":`)); n > 1 {
			t.Errorf("%d curves in a line: %.200s", n, line)
		}
	}
	if n := bytes.Count(text, []byte("\n    {\"algorithm\":")); n < len(file.CurveSets[0].Curves) {
		t.Errorf("%d lines of curves, want %d", n, len(file.CurveSets[0].Curves))
	}
	var got bytes.Buffer
	want, err := json.Marshal(file)
	if err := errors.Join(err, json.Compact(&got, text)); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the layout changes the file (%v)", err)
	}
}

// What the library would refuse is not written.
func TestLargerThanTheLibraryReads(t *testing.T) {
	file := &model.File{Provenance: model.Provenance{Tool: strings.Repeat("x", model.MaxFileBytes)}}
	if text, err := marshalModel(file); err == nil ||
		!strings.Contains(err.Error(), "larger than the 64MiB that the library reads") ||
		len(text) > model.MaxFileBytes {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
