package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

const smallSweep = "../testdata/small.csv"

var shippedSweeps = []string{"../../../configs/sweeps/simulated-hgx-h100-1n.csv",
	"../../../configs/sweeps/simulated-hgx-h100-2n.csv"}

// fitted is what tunefit fit hands over for some sweeps.
func fitted(t testing.TB, files ...string) Input {
	t.Helper()
	pool := fit.NewPool()
	var sources []model.Source
	for _, file := range files {
		r, err := testlib.Measurements(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Samples {
			pool.Add(&r.Samples[i])
		}
		sources = append(sources, model.Source{Name: filepath.Base(file), SHA256: "00", Rows: len(r.Samples)})
	}
	return inputOf(t, pool, sources)
}

func inputOf(t testing.TB, pool *fit.Pool, sources []model.Source) Input {
	t.Helper()
	set := pool.Set()
	file, report := fit.Fit(set, fit.Options{Provenance: model.Provenance{Tool: "tunefit", Files: sources}})
	model, err := model.Compile("model", file)
	if err != nil {
		t.Fatal(err)
	}
	return Input{Set: set, File: file, Model: model, Report: report, Rows: fit.Rows(model)}
}

func written(t testing.TB, in Input) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// dataOf returns what the page's script reads.
func dataOf(t *testing.T, page []byte) pageData {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindSubmatch(page)
	if m == nil {
		t.Fatal("no data in the page")
	}
	var raw struct {
		Families []string
		Groups   []json.RawMessage
	}
	if err := json.Unmarshal(m[1], &raw); err != nil {
		t.Fatal(err)
	}
	d := pageData{Families: raw.Families}
	for _, text := range raw.Groups {
		g := &groupData{}
		if err := json.Unmarshal(text, g); err != nil {
			t.Fatal(err)
		}
		d.Groups = append(d.Groups, g)
	}
	return d
}

func TestPageHoldsTheFit(t *testing.T) {
	in := fitted(t, smallSweep)
	page := written(t, in)
	if again := written(t, in); !bytes.Equal(page, again) {
		t.Error("the same fit gives another page")
	}
	text := html.UnescapeString(string(page))
	for _, want := range append(strings.Split(strings.TrimSpace(policyText(in)), "\n"), "small.csv", "Simulated.",
		"allreduce 2x8", "What to do next", "The MIT License") {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	const others = "example tuner and RCCL’s read it, too"
	if !strings.Contains(string(written(t, in)), others) {
		t.Error("the page does not say who else reads a policy of ten columns")
	}
	in.File.Provenance.NCCL = "2.30.7"
	if strings.Contains(string(written(t, in)), others) {
		t.Error("the page says that others read the column nccl")
	}
	in.File.Provenance.NCCL = ""
	// A page whole in itself names no other place but in texts.
	if m := regexp.MustCompile(`(?i)(src|href|action)\s*=\s*["']?(https?:|//)|@import|url\(`).FindString(
		text); m != "" {
		t.Errorf("%q in the page", m)
	}
	g := dataOf(t, page).Groups[0]
	measured := -len(in.Set.Groups[0].Default)
	for _, c := range g.Curves {
		measured += len(c.Measured)
		if len(c.Fitted) < len(c.Measured) {
			t.Errorf("%s: %d fitted points for %d measured", c.Name, len(c.Fitted), len(c.Measured))
		}
	}
	if points := len(in.Set.Groups[0].Points); measured != points {
		t.Errorf("%d measured points of %d points", measured, points)
	}
	if !g.Curves[0].Shown || len(g.Sizes) != len(in.Set.Groups[0].Sizes()) {
		t.Errorf("%v shown, %d sizes", g.Curves[0].Shown, len(g.Sizes))
	}
}

// What a reader asks first is there: what of, when, on what, with what, how much, in the
// bandwidth that people quote; what is assumed is called so.
func TestPageSaysWhatItIsOf(t *testing.T) {
	in := fitted(t, "../../../docs/measured/mi355x-allreduce.csv")
	in.File.Provenance.NCCL = "2.30.7"
	in.File.Provenance.Machines = []model.MeasuredOn{{GPU: "MI355X", Begun: "2026-11-02", Rows: 1},
		{GPU: "MI355X", Begun: "2026-11-01", Rows: 1}}
	text := string(written(t, in))
	wants := []string{
		"<title>allreduce on 1x8, 2x8</title>", "<h1>allreduce on 1x8, 2x8</h1>", "<dd>MI355X</dd>", "<dd>2.30.7</dd>", "<dd>2026-11-01 to 2026-11-02</dd>",
		"Assumed, not measured: that repetitions differ by 1.0 %", "busbw, NCCL’s own",
	}
	for _, v := range Recommendations(in) {
		for _, s := range v.Spans {
			wants = append(wants, ">"+s.Name()+"<", ">"+gbps(s.OwnBus)+"<")
		}
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// A decision on the page is what the rows and the measurements say.
func TestDecisions(t *testing.T) {
	in := fitted(t, smallSweep)
	r := &in.Report.Groups[0]
	acts := 0
	decisions := newDecisions(r, in.Model, in.Rows)
	for _, d := range decisions {
		least := math.Inf(1)
		for _, c := range slices.Concat(r.Group.Points, r.Group.Default) {
			if c.Bytes == d.bytes {
				least = min(least, c.Micros)
			}
		}
		if d.best != least && (d.winner != nil || d.best != d.byNCCL) {
			t.Errorf("%d: best %g, want %g", d.bytes, d.best, least)
		}
		if (d.row == nil) != (d.why != "") {
			t.Errorf("%d: row %v and reason %q", d.bytes, d.row, d.why)
		}
		if d.row == nil {
			continue
		}
		acts++
		for _, row := range in.Rows {
			if row.Bytes.Min <= d.bytes && d.bytes <= row.Bytes.Max && row.Config != *d.row {
				t.Errorf("%d: %s, want %s", d.bytes, d.row, row.Config)
			}
		}
		if d.gain > d.reach || d.us < d.best {
			t.Errorf("%d: the policy gains %g, the best measured %g", d.bytes, d.gain, d.reach)
		}
	}
	if acts == 0 {
		t.Error("the policy acts nowhere")
	}
}

// What loses to NCCL's default, or is a repetition of it, does not win.
func TestWinners(t *testing.T) {
	a, b := nccl.Config{Channels: 4}, nccl.Config{Channels: 8}
	unknown := nccl.Config{Cell: nccl.NoCell}
	for name, c := range map[string]struct {
		points, own []fit.Point
		winner      *nccl.Config
		best        float64
	}{
		"faster": {[]fit.Point{{Config: a, Micros: 9}, {Config: b, Micros: 12}},
			[]fit.Point{{Config: b, Micros: 10}}, &a, 9},
		"slower":    {[]fit.Point{{Config: a, Micros: 11}}, []fit.Point{{Config: unknown, Micros: 10}}, nil, 10},
		"as fast":   {[]fit.Point{{Config: a, Micros: 10}}, []fit.Point{{Config: unknown, Micros: 10}}, nil, 10},
		"once more": {[]fit.Point{{Config: b, Micros: 9}}, []fit.Point{{Config: b, Micros: 10}}, nil, 10},
		"its own count": {[]fit.Point{{Config: nccl.Config{}, Micros: 9}}, []fit.Point{{Config: b, Micros: 10}}, nil,
			10},
		"no default": {[]fit.Point{{Config: a, Micros: 9}}, nil, &a, 9},
		"of all unknown": {[]fit.Point{{Config: nccl.Config{}, Micros: 9}}, []fit.Point{{Config: unknown, Micros: 10}},
			&nccl.Config{}, 9},
		"nothing else": {nil, []fit.Point{{Config: b, Micros: 10}}, nil, 10},
	} {
		r := &fit.GroupReport{Group: &fit.Group{Points: c.points, Default: c.own}}
		d := newDecisions(r, &model.Model{}, nil)[0]
		if (d.winner == nil) != (c.winner == nil) || d.winner != nil && *d.winner != *c.winner || d.best != c.best {
			t.Errorf("%s: %v wins with %g us", name, d.winner, d.best)
		}
	}
}

// The lines of the page are the curves that decide: they pass through what was measured, and between two times of a
// configuration they leave neither the range of these nor the sizes.
func TestLinesPassThroughPoints(t *testing.T) {
	in := fitted(t, "../../../docs/measured/mi355x-allreduce.csv")
	for _, g := range dataOf(t, written(t, in)).Groups {
		for _, c := range g.Curves {
			i := 0 // of the measured point at or after a fitted one
			for _, f := range c.Fitted {
				for i+1 < len(c.Measured) && c.Measured[i][0] < f[0] {
					i++
				}
				m, before := c.Measured[i], c.Measured[max(0, i-1)]
				if f[0] == m[0] {
					before = m
				}
				low, high := min(m[1], before[1])*0.9999, max(m[1], before[1])*1.0001 // written with five digits
				if (c.Family != "" || f[0] == m[0]) && (f[1] < low || f[1] > high) {
					t.Errorf("%s, %s: %v at %v is not within %v and %v", g.Name, c.Name, f[1], f[0], low, high)
				}
			}
			first, last, n := c.Fitted[0], c.Fitted[len(c.Fitted)-1], len(c.Measured)
			if first[0] != c.Measured[0][0] || last[0] != c.Measured[n-1][0] || len(c.Fitted) < 7*(n-1) {
				t.Errorf("%s, %s: %d points of a line for %d measured", g.Name, c.Name, len(c.Fitted), n)
			}
		}
	}
}

// Names from outside stay text.
func TestNamesCannotBecomeMarkup(t *testing.T) {
	in := fitted(t, smallSweep)
	clean := written(t, in)
	const evil = `</script><script>alert(1)</script><img src=x onerror=alert(1)>"'&.csv`
	in.File.Provenance.Files = []model.Source{{Name: evil}}
	in.File.Provenance.NCCL, in.File.Provenance.Tool = evil, evil
	in.Rejected = []fit.Refusal{{Reason: evil, Rows: 1}}
	in.Report.Groups[0].Group.Contradictions = []fit.Contradiction{{A: evil}} // goes to the script, too
	page := written(t, in)
	for _, tag := range []string{"<script", "</script", "<img"} {
		if got, want := bytes.Count(page, []byte(tag)), bytes.Count(clean, []byte(tag)); got != want {
			t.Errorf("%d times %s, want %d", got, tag, want)
		}
	}
	if !bytes.Contains(page, []byte("&lt;img src=x onerror=alert(1)&gt;")) {
		t.Error("the name is not on the page")
	}
}

// A huge sweep makes a page of bounded size, which says what it leaves out.
func TestBounded(t *testing.T) {
	in := fitted(t, smallSweep)
	g := in.Report.Groups[0]
	curves := &in.File.CurveSets[0].Curves
	for range 2 * mostCurves {
		*curves = append(*curves, (*curves)[0])
	}
	d := newGroupData(&g, in, newDecisions(&g, in.Model, in.Rows))
	if len(d.Curves) != 1+mostCurves || d.Left != len(*curves)-mostCurves {
		t.Errorf("%d curves, %d left out", len(d.Curves), d.Left)
	}
}

// Sweeps of all kinds make pages: few sizes, outliers, no default.
func TestRealSweeps(t *testing.T) {
	files, err := filepath.Glob("../../../docs/measured/*.csv")
	if err != nil || len(files) == 0 {
		t.Fatalf("no measured sweeps (%v)", err)
	}
	page := written(t, fitted(t, files...))
	if n := len(page); n > 1<<20 {
		t.Errorf("%d bytes", n)
	}
	dom, said := open(t, browser(t), page)
	if said != "" || !strings.Contains(dom, `class="map"`) {
		t.Errorf("the browser complains, or nothing is drawn:\n%s", said)
	}
}

// BenchmarkWrite is of the page alone, without the fit. No row repeats another.
func BenchmarkWrite(b *testing.B) {
	r, err := testlib.Measurements(smallSweep)
	if err != nil {
		b.Fatal(err)
	}
	for _, rows := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			pool := fit.NewPool()
			for i := range rows {
				s := r.Samples[i%len(r.Samples)]
				s.Nodes = 1 + i/len(r.Samples)
				s.Ranks = 8 * s.Nodes
				pool.Add(&s)
			}
			in := inputOf(b, pool, nil)
			var size counter
			for b.Loop() {
				size = 0
				if err := Write(&size, in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size)/1e6, "MB/page")
		})
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// Where a verification did not confirm what looks faster, the page promises nothing: it gives the reason, and neither
// the map nor the distance to the best counts it.
func TestWhatTheVerificationDidNotConfirm(t *testing.T) {
	text := "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us,source\n"
	row := func(bytes int, config, selection string, us float64, source string) {
		text += fmt.Sprintf("allreduce,%d,%s,1,4,%s,%g,%s\n", bytes, config, selection, us, source)
	}
	const lucky = 2 // the size at which the default is slow once, and a configuration fast once
	for i := range 8 {
		bytes, us := 8192<<i, float64(int(40)<<i)
		byDefault, first := []float64{us, 1.01 * us, us}, 0.98*us
		if i == lucky {
			byDefault[1], first = 5*us, 0.7*us
		}
		row(bytes, "ring,ll,1", "default", byDefault[0], "a")
		row(bytes, "ring,simple,8", "forced", first, "b")
		row(bytes, "tree,ll,8", "forced", 1.5*us, "c")
		for _, at := range []int{1, 2} {
			row(bytes, "ring,ll,1", "default", byDefault[at], fmt.Sprintf("verify:%d", at))
			row(bytes, "ring,simple,8", "forced", us, fmt.Sprintf("verify:p%d", at))
		}
	}
	in := fitted(t, testlib.File(t, "sweep.csv", text))
	sizes := dataOf(t, written(t, in)).Groups[0].Sizes
	if s := sizes[lucky]; !s.Unsure || s.Row != "" || s.Gain > 0 {
		t.Errorf("%+v", s)
	}
	v := Recommendations(in)[0]
	if !v.WasTried() || v.VersusBest.Mean > 1.01 {
		t.Errorf("of decisions at sizes left out it says %+v", v)
	}
}
