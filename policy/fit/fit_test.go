package fit

import (
	"math"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

func TestFitFindsWhatIsFaster(t *testing.T) {
	m := smallMachine()
	set := pooled(m.sweep(3, 1))
	file, report := Fit(set, Options{})
	if len(file.CurveSets) != 1 || set.Used != set.Rows || len(set.Refused) != 0 {
		t.Fatalf("%d groups, %d of %d rows used, refused %v", len(file.CurveSets), set.Used, set.Rows, set.Refused)
	}
	r := report.Groups[0]
	if g := r.Group; math.Abs(g.Noise-m.noise) > 0.3*m.noise || len(g.Aliases) != 0 {
		t.Errorf("noise %.4f, want %.4f; aliases %v, want none", g.Noise, m.noise, g.Aliases)
	}
	if r.Validation == nil || len(file.CurveSets[0].HeldOut) != 1 {
		t.Fatal("no verdict on every other size")
	}
	v := r.Validation
	// The file tells how good what it decides was, not what the model takes for the fastest.
	if got := file.CurveSets[0].HeldOut[0]; got.LeftOut != model.LeftOutSizes ||
		got.Mean != round(v.PolicyScore.Mean, 5) || v.PolicyScore.Mean == v.Plain.Mean {
		t.Errorf("the file says %+v (cautious %+v, plain %+v)", got, v.PolicyScore, v.Plain)
	}
	if v.Harm > 0 || v.PolicyScore.Mean >= v.Default.Mean || v.Plain.Mean > 1.05 {
		t.Errorf("harm %d, policy %.4f, plain %.4f, default %.4f", v.Harm, v.PolicyScore.Mean, v.Plain.Mean, v.Default.Mean)
	}
	if !slices.ContainsFunc(r.Genuine, func(share float64) bool { return share > 0 }) ||
		slices.Min(r.Genuine) < 0 || slices.Max(r.Genuine) > 1 {
		t.Errorf("%v of the measured gains are genuine", r.Genuine)
	}
	// At sizes nobody measured the choice is good by the truth.
	view := mustCompile(t, file).For(m.Comm)
	decided := 0
	for b := uint64(5000); b < 250<<20; b = b * 7 / 5 {
		costs := costsAt(&Group{Default: []Point{{Config: m.byDefault(b), Bytes: b}}}, []Point{
			{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoLL}}},
			{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoSimple}}},
			{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}}},
			{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple}}},
		}, b)
		choice, why := view.Choose(nccl.Call{Coll: m.Coll, Bytes: b}, costs)
		if why != model.Decides {
			continue
		}
		decided++
		truth := m.micros(choice.Config, b)
		if def := m.micros(m.byDefault(b), b); truth > 1.01*def {
			t.Errorf("at %d bytes %v takes %.1f us, the default %.1f", b, choice, truth, def)
		}
	}
	if decided < 10 {
		t.Errorf("the model decided at %d sizes: the test is too weak", decided)
	}
}

func mustCompile(t testing.TB, file *model.File) *model.Model {
	t.Helper()
	m, err := model.Compile("test", file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// However little was measured, there is a result.
func TestLittleData(t *testing.T) {
	m := smallMachine()
	all := m.sweep(1, 6)
	for name, keep := range map[string]func(*bench.Sample) bool{
		"one size": func(s *bench.Sample) bool { return s.Bytes == 1<<20 },
		"one configuration": func(s *bench.Sample) bool {
			return s.Algo == nccl.AlgoRing && s.Channels == 8 && s.Proto == nccl.ProtoSimple
		},
		"one row":      func(s *bench.Sample) bool { return s == &all[1] },
		"no default":   func(s *bench.Sample) bool { return s.Selection == bench.SelectionForced },
		"only default": func(s *bench.Sample) bool { return s.Selection == bench.SelectionDefault },
		"nothing":      func(s *bench.Sample) bool { return false },
	} {
		var some []bench.Sample
		for i := range all {
			if keep(&all[i]) {
				some = append(some, all[i])
			}
		}
		file, report := Fit(pooled(some), Options{})
		fitted := mustCompile(t, file)
		Rows(fitted)
		want := 1
		if name == "only default" || name == "nothing" {
			want = 0
		}
		if len(file.CurveSets) != want {
			t.Errorf("%s: %d groups, want %d (%+v)", name, len(file.CurveSets), want, report)
		}
		if name != "no default" {
			continue
		}
		g := pooled(some).Groups[0]
		for _, o := range decide(fitted.For(m.Comm), g, g.Sizes()) {
			if o.Abstention != model.AbstainDefault {
				t.Errorf("without a default the model abstains at %d because %q", o.Bytes, o.Abstention)
			}
		}
	}
}

// A configuration is not chosen at sizes beyond those it was measured at, nor has it rows there.
func TestNothingBeyondWhatWasMeasured(t *testing.T) {
	m := smallMachine()
	g := pooled(m.sweep(1, 8)).Groups[0]
	last := m.sizes[len(m.sizes)-1]
	part := g.subset(func(c Point) bool { return c.Config.Proto != nccl.ProtoSimple || c.Bytes < last/2 },
		func(Point) bool { return true })
	fitted := compile(part)
	if c, why := fitted.For(m.Comm).Choose(nccl.Call{Coll: m.Coll, Bytes: last},
		costsAt(g, g.bySize()[last], last)); c.Proto == nccl.ProtoSimple {
		t.Errorf("%+v (%q) at a size where it was not measured", c, why)
	}
	for _, r := range Rows(fitted) {
		if r.Proto == nccl.ProtoSimple && r.Bytes.Max >= last {
			t.Errorf("row %+v reaches sizes where it was not measured", r)
		}
	}
}

// A gain at one size that neither neighbour shares is worth no row.
func TestRowsNeedARange(t *testing.T) {
	key := Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}
	def, ring := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoSimple}, Channels: 8},
		nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}, Channels: 8}
	for name, test := range map[string]struct {
		gains []float64 // of ring/ll at 1 KiB, 2 KiB ...
		want  int
	}{
		"nowhere":         {[]float64{0, 0, 0, 0, 0, 0}, 0},
		"at one end":      {[]float64{0.015, -0.5, -0.5, -0.5, -0.5, -0.5}, 0},
		"everywhere":      {[]float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 1},
		"from one onward": {[]float64{-0.5, -0.5, -0.5, -0.5, 0.2, 0.2}, 1},
	} {
		g := &Group{Key: key, Noise: assumedNoise}
		for i, gain := range test.gains {
			b := uint64(1) << (10 + i)
			g.Default = append(g.Default, Point{Config: def, Bytes: b, Micros: 100, Reps: 1})
			g.Points = append(g.Points, Point{Config: ring, Bytes: b, Micros: 100 * (1 - gain), Reps: 1})
		}
		rows := Rows(compile(g))
		if len(rows) != test.want {
			t.Errorf("%s: %d rows, want %d: %v", name, len(rows), test.want, rows)
		}
		for _, r := range rows {
			if r.Bytes.Min == r.Bytes.Max {
				t.Errorf("%s: a row for one exact size: %s", name, r)
			}
		}
	}
}

// A verification that was won at one size has a row to both sides of it, though the curves promise nothing there.
func TestRowsAroundAVerifiedSize(t *testing.T) {
	g := &Group{Key: Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, Noise: assumedNoise}
	ring := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}, Channels: 8}
	for b := uint64(1 << 10); b <= 64<<10; b *= 2 {
		g.Default = append(g.Default, Point{Config: unknownConfig, Bytes: b, Micros: 100, Reps: 1})
		g.Points = append(g.Points, Point{Config: ring, Bytes: b, Micros: 150, Reps: 1})
	}
	file := compile(g).File
	file.CurveSets[0].Verified = []model.Verified{{Bytes: 8 << 10, Algo: "ring", Proto: "ll", Channels: 8, Micros: 90,
		DefaultMicros: 100, Repetitions: 2}}
	rows := Rows(mustCompile(t, file))
	if len(rows) != 1 || rows[0].Evidence.Verified != 1 || !rows[0].Bytes.Contains(7600) || !rows[0].Bytes.Contains(8700) {
		t.Errorf("verified at 8KiB: %v", rows)
	}
}

// Between two verified sizes only what won one of the verifications has rows, however fast the curves say another is.
func TestRowsBetweenVerifiedSizes(t *testing.T) {
	g := &Group{Key: Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, Noise: assumedNoise}
	config := func(p nccl.Proto) nccl.Config {
		return nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: p}, Channels: 8}
	}
	for b := uint64(1 << 10); b <= 64<<10; b *= 2 {
		g.Default = append(g.Default, Point{Config: unknownConfig, Bytes: b, Micros: 100, Reps: 1})
		g.Points = append(g.Points, Point{Config: config(nccl.ProtoLL), Bytes: b, Micros: 80, Reps: 1},
			Point{Config: config(nccl.ProtoSimple), Bytes: b, Micros: 60, Reps: 1}) // it was lucky
	}
	slices.SortFunc(g.Points, Point.compare)
	file := compile(g).File
	for b := uint64(1 << 10); b <= 64<<10; b *= 2 {
		v := model.Verified{Bytes: b, Micros: 100, DefaultMicros: 100, Repetitions: 2}
		if b == 8<<10 || b == 16<<10 {
			v.Algo, v.Proto, v.Channels, v.Micros = "ring", "ll", 8, 80
		}
		file.CurveSets[0].Verified = append(file.CurveSets[0].Verified, v)
	}
	rows := Rows(mustCompile(t, file))
	if len(rows) != 1 || rows[0].Config != config(nccl.ProtoLL) || !rows[0].Bytes.Contains(12<<10) ||
		rows[0].Bytes.Contains(4<<10) || rows[0].Bytes.Contains(32<<10) {
		t.Errorf("verified at 8KiB and 16KiB: %v", rows)
	}
}

// From 2.31 on, NCCL takes a tuner's channels only where they are fewer than its own: more of them is a row for
// nothing.
func TestRowsDoNotRaiseChannels(t *testing.T) {
	own := nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}
	for _, test := range []struct {
		nccl   string
		config nccl.Config
		want   bool
	}{
		{"2.30.7", nccl.Config{Cell: own, Channels: 16}, true},
		{"2.31.2", nccl.Config{Cell: own, Channels: 16}, false},
		{"2.31.2", nccl.Config{Cell: own, Channels: 4}, true},
		// its own number is not known
		{"2.31.2", nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoLL}, Channels: 16}, true},
		{"2.30.7, 2.31.2", nccl.Config{Cell: own, Channels: 16}, true},
		{"", nccl.Config{Cell: own, Channels: 16}, true},
	} {
		g := &Group{Key: Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, Noise: assumedNoise}
		for b := uint64(1 << 10); b <= 1<<16; b *= 2 {
			g.Default = append(g.Default, Point{Config: nccl.Config{Cell: own, Channels: 8}, Bytes: b,
				Micros: 100, Reps: 1})
			g.Points = append(g.Points, Point{Config: test.config, Bytes: b, Micros: 80, Reps: 1})
		}
		m := compile(g)
		m.File.Provenance.NCCL = test.nccl
		if rows := Rows(m); (len(rows) > 0) != test.want {
			t.Errorf("%s, %s instead of 8 channels: %v, want some: %v", test.nccl, test.config, rows, test.want)
		}
	}
}
