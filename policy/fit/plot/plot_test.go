package plot

import (
	"bytes"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

func small(t *testing.T) *model.Model {
	t.Helper()
	r, err := bench.ReadFile("../testdata/small.csv", bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pool := fit.NewPool()
	for i := range r.Samples {
		pool.Add(&r.Samples[i])
	}
	file, _ := fit.Fit(pool.Set(), fit.Options{})
	return compiled(t, file.Groups...)
}

func compiled(t *testing.T, groups ...model.Group) *model.Model {
	t.Helper()
	m, err := model.Compile("m.json", &model.File{Format: model.Format, Version: model.Version, Groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// write draws the first group.
func write(w io.Writer, m *model.Model, o Options) error { return Write(w, m, &m.File.Groups[0], o) }

func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := write(&b, small(t), Options{Format: "svg", Top: 3}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"allreduce 2x8, the 3 best of 12 configurations", "NCCL", "ring/", "tree/",
		">4K<", ">256M<"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(text, " ch<"); n != 3 {
		t.Errorf("%d configurations in the legend, want 3", n)
	}
	var again bytes.Buffer
	if err := write(&again, small(t), Options{Format: "svg", Top: 3}); err != nil ||
		again.String() != text {
		t.Errorf("the same group gives another picture (%v)", err)
	}
}

// The picture holds the colour of its line.
func TestPNG(t *testing.T) {
	var b bytes.Buffer
	if err := write(&b, small(t), Options{Format: "png", Top: 1}); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			if color.NRGBAModel.Convert(picture.At(x, y)) == colors[0] {
				lines++
			}
		}
	}
	if lines < 1000 {
		t.Errorf("%d pixels of the line", lines)
	}
}

// Whatever little was measured can be drawn.
func TestLittle(t *testing.T) {
	for name, g := range map[string]model.Group{
		"one point": {
			Coll: "allgather", Comm: nccl.Comm{Nodes: 1, Ranks: 2}, Noise: 0.01,
			Curves: []model.Curve{{Algo: "ring", Proto: "ll", Measured: [][2]float64{{1, 0.25}}}},
		},
		"one point and a default elsewhere": {
			Coll: "reduce", Comm: nccl.Comm{Nodes: 2, Ranks: 4}, Noise: 0.01,
			Curves:  []model.Curve{{Algo: "ring", Proto: "ll", Channels: 2, Measured: [][2]float64{{100, 7e8}}}},
			Default: []model.DefaultPoint{{Bytes: 4096, Micros: 7}},
		},
	} {
		for _, format := range Formats {
			var b bytes.Buffer
			if err := write(&b, compiled(t, g), Options{Format: format, Top: 5}); err != nil ||
				b.Len() == 0 {
				t.Errorf("%s as %s: %v", name, format, err)
			}
		}
	}
	if err := write(&bytes.Buffer{}, small(t), Options{Format: "gif", Top: 1}); err == nil {
		t.Error("a gif")
	}
}
