package plot

import (
	"bytes"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

func small(t *testing.T) *model.Group {
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
	return &file.Groups[0]
}

func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, small(t), Options{Format: "svg", Top: 3, Band: true}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"allreduce 2x8, the 3 best of 12 configurations", "NCCL", "ring/", "tree/", ">4K<", ">256M<"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(text, " ch<"); n != 3 {
		t.Errorf("%d configurations in the legend, want 3", n)
	}
	var again bytes.Buffer
	if err := Write(&again, small(t), Options{Format: "svg", Top: 3, Band: true}); err != nil || again.String() != text {
		t.Errorf("the same group gives another picture (%v)", err)
	}
}

// The picture holds the colours of its lines, and with intervals more of them.
func TestPNG(t *testing.T) {
	count := func(band bool) (lines, inked int) {
		var b bytes.Buffer
		if err := Write(&b, small(t), Options{Format: "png", Top: 1, Band: band}); err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		for y := range picture.Bounds().Dy() {
			for x := range picture.Bounds().Dx() {
				switch c := color.NRGBAModel.Convert(picture.At(x, y)); {
				case c == colors[0]:
					lines++
				case c != color.NRGBA{255, 255, 255, 255}:
					inked++
				}
			}
		}
		return lines, inked
	}
	lines, plain := count(false)
	_, banded := count(true)
	if lines < 1000 || banded <= plain {
		t.Errorf("%d pixels of the line, %d others, %d with intervals", lines, plain, banded)
	}
}

// Whatever little was measured can be drawn.
func TestLittle(t *testing.T) {
	for name, g := range map[string]model.Group{
		"one point": {
			Coll: "allgather", Nodes: 1, Ranks: 2, Noise: 0.01, Axis: []uint64{1},
			Families: []model.Family{{Algo: "ring", Proto: "ll", Curves: []model.Curve{{Min: 1, Max: 1, Measured: [][2]float64{{1, 0.25}}, Micros: []float64{0.25}, Sigma: []float64{0.01}}}}},
		},
		"no axis within": {
			Coll: "reduce", Nodes: 2, Ranks: 3, Noise: 0.01, Axis: []uint64{100},
			Families: []model.Family{{Algo: "ring", Proto: "ll", Curves: []model.Curve{{Channels: 2, Min: 100, Max: 100, Measured: [][2]float64{{100, 7e8}}, Micros: []float64{7e8}, Sigma: []float64{0.01}}}}},
		},
	} {
		for _, format := range Formats {
			var b bytes.Buffer
			if err := Write(&b, &g, Options{Format: format, Top: 5, Band: true}); err != nil || b.Len() == 0 {
				t.Errorf("%s as %s: %v", name, format, err)
			}
		}
	}
	if err := Write(&bytes.Buffer{}, small(t), Options{Format: "gif", Top: 1}); err == nil {
		t.Error("a gif")
	}
}
