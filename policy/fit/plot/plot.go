// Package plot draws the curves of a model as a picture for a document:
// time over size, both logarithmic, dots measured and lines between them.
package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/curves"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Formats are the suffixes of files that can be drawn.
var Formats = []string{"png", "svg"}

// Options say what to draw of a group.
type Options struct {
	Format string // one of Formats
	// Top is how many configurations are drawn, those that win most sizes first.
	Top int
}

// The size of a picture: a slide's or a column's width, readable without zoom.
const (
	width  = 9 * vg.Inch
	height = 5.5 * vg.Inch
)

// edge is left free around the picture.
const edge = 6 // points

// margin is a factor left free around the points.
const margin = 1.08

// Colours that people with colour blindness tell apart, by Okabe and Ito (2008),
// without the yellow, which white swallows.
var colors = []color.NRGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255},
	{230, 159, 0, 255},
}

var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}

// Write draws one group of a model.
func Write(w io.Writer, m *model.Model, g *model.Group, o Options) error {
	all := curves.Ranked(m, g)
	shown := all[:min(o.Top, len(all))]
	p := plot.New()
	p.Title.Text = g.Key().String()
	if left := len(all) - len(shown); left > 0 {
		p.Title.Text += fmt.Sprintf(", the %d best of %d configurations", len(shown), len(all))
	}
	p.X.Label.Text, p.Y.Label.Text = "bytes", "time, us"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(sizeTicks), plot.TickerFunc(timeTicks)
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, c := range shown {
		if err := addCurve(p, c, colors[i%len(colors)], dashes[i/len(colors)%len(dashes)]); err != nil {
			return err
		}
	}
	measured, between := curves.Default(m, g)
	if len(measured) > 0 {
		if err := addDefault(p, measured, between); err != nil {
			return err
		}
	}
	for _, a := range []*plot.Axis{&p.X, &p.Y} { // one point alone has a range, too
		a.Min, a.Max = a.Min/margin, a.Max*margin
	}
	setStyle(p)
	canvas, err := newCanvas(o.Format)
	if err != nil {
		return err
	}
	p.Draw(draw.Crop(draw.New(canvas), edge, -edge, edge, -edge))
	_, err = canvas.WriteTo(w)
	return err
}

const dotsPerInch = 144

func newCanvas(format string) (vg.CanvasWriterTo, error) {
	switch format {
	case "png":
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}, nil
	case "svg":
		return vgsvg.New(width, height), nil
	}
	return nil, fmt.Errorf("%q is no picture that can be drawn (allowed: %s)", format, strings.Join(Formats, ", "))
}

func setStyle(p *plot.Plot) {
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		f.Variant = "Sans"
	}
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Legend.Padding = vg.Points(3)
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(6), vg.Points(-4)
	p.Title.Padding = vg.Points(8)
}

func addCurve(p *plot.Plot, c curves.Curve, color color.NRGBA, dash []vg.Length) error {
	return addLine(p, c.Config.String(), c.Measured, c.Fitted,
		draw.LineStyle{Color: color, Width: vg.Points(1.4), Dashes: dash},
		draw.GlyphStyle{Color: color, Radius: vg.Points(2), Shape: draw.CircleGlyph{}})
}

func addDefault(p *plot.Plot, measured, between []curves.Point) error {
	return addLine(p, "NCCL's choice", measured, between,
		draw.LineStyle{Color: color.Black, Width: vg.Points(1.6), Dashes: []vg.Length{vg.Points(3), vg.Points(3)}},
		draw.GlyphStyle{Color: color.Black, Radius: vg.Points(3), Shape: draw.RingGlyph{}})
}

func addLine(
	p *plot.Plot, name string, measured, between []curves.Point, style draw.LineStyle, dot draw.GlyphStyle,
) error {
	line, err := plotter.NewLine(xys(between))
	if err != nil {
		return err
	}
	dots, err := plotter.NewScatter(xys(measured))
	if err != nil {
		return err
	}
	line.LineStyle, dots.GlyphStyle = style, dot
	p.Add(line, dots)
	p.Legend.Add(name, line, dots)
	return nil
}

func xys(points []curves.Point) plotter.XYs {
	out := make(plotter.XYs, len(points))
	for i, p := range points {
		out[i] = plotter.XY{X: float64(p.Bytes), Y: p.Micros}
	}
	return out
}

// timeTicks are 1, 2 and 5 of each decade.
func timeTicks(low, high float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * math.Pow(10, e); low <= v && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
			}
		}
	}
	return ticks
}

// mostTicks on the axis of sizes can be read.
const mostTicks = 16

// sizeTicks are powers of two.
func sizeTicks(low, high float64) []plot.Tick {
	var sizes []uint64
	for b := uint64(1); b != 0 && float64(b) <= high; b <<= 1 {
		if float64(b) >= low {
			sizes = append(sizes, b)
		}
	}
	step := 1 + len(sizes)/mostTicks
	var ticks []plot.Tick
	for i, b := range sizes {
		t := plot.Tick{Value: float64(b)}
		if i%step == 0 {
			t.Label = strings.TrimSuffix(nccl.FormatBytes(b), "iB")
		}
		ticks = append(ticks, t)
	}
	if len(ticks) == 0 {
		ticks = []plot.Tick{{Value: low, Label: nccl.FormatBytes(uint64(low))}}
	}
	return ticks
}
