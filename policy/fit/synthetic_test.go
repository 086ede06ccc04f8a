package fit

import (
	"bytes"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// machine is a made-up communicator whose true times are known.
type machine struct {
	Key
	sizes    []uint64
	channels []int
	noise    float64
	// everyCell sweeps all algorithms and protocols instead of tree and ring with
	// LL and Simple.
	everyCell bool
}

func smallMachine() machine {
	m := machine{Key: Key{policy.CollAllReduce, 2, 16}, channels: []int{1, 2, 4, 8, 16, 32}, noise: 0.005}
	for b := uint64(4 << 10); b <= 256<<20; b *= 2 {
		m.sizes = append(m.sizes, b)
	}
	return m
}

// micros is latency that grows with channels, and bandwidth that channels add to
// until the links are full: LL early and slow, Simple late and fast.
func (m machine) micros(c Config, bytes uint64) float64 {
	latency, perChannel, link := 12.0, 1.2, 90.0 // us, GB/s, GB/s
	if c.Proto == policy.ProtoSimple {
		latency, perChannel, link = 35, 6, 180
	}
	if c.Algo == policy.AlgoTree {
		latency, perChannel, link = 0.7*latency, 0.8*perChannel, 0.6*link
	}
	channels := float64(c.Channels)
	step := 1.0
	if bytes >= 1<<20 { // the library switches something at 1 MiB
		step = 1.15
	}
	perStep := 0.15 // us: more for the longer way around a ring
	if c.Algo == policy.AlgoRing {
		perStep = 0.4
	}
	return step * (latency + perStep*channels + float64(bytes)/1000*(1/(perChannel*channels)+1/link))
}

func (m machine) configs() []Config {
	var all []Config
	algos, protos := []policy.Algo{policy.AlgoTree, policy.AlgoRing}, []policy.Proto{policy.ProtoLL, policy.ProtoSimple}
	if m.everyCell {
		algos, protos = nil, []policy.Proto{policy.ProtoLL, policy.ProtoLL128, policy.ProtoSimple}
		for a := range policy.AlgoPAT + 1 {
			algos = append(algos, a)
		}
	}
	for _, a := range algos {
		for _, p := range protos {
			for _, c := range m.channels {
				all = append(all, Config{FamilyKey{a, p}, c})
			}
		}
	}
	return all
}

// byDefault is what the made-up library chooses: not badly, not well.
func (m machine) byDefault(bytes uint64) Config {
	if bytes < 512<<10 {
		return Config{FamilyKey{policy.AlgoTree, policy.ProtoLL}, 16}
	}
	return Config{FamilyKey{policy.AlgoRing, policy.ProtoSimple}, 8}
}

func (m machine) sample(c Config, bytes uint64, by bench.Selection, rng *rand.Rand) bench.Sample {
	return bench.Sample{
		Coll: m.Coll, Nodes: m.Nodes, Ranks: m.Ranks, Bytes: bytes, DType: "float", RedOp: "sum",
		Algo: c.Algo, Proto: c.Proto, Channels: c.Channels, Selection: by,
		Micros: m.micros(c, bytes) * math.Exp(m.noise*rng.NormFloat64()),
	}
}

func (m machine) sweep(reps int, seed uint64) []bench.Sample {
	rng := rand.New(rand.NewPCG(seed, 3))
	var all []bench.Sample
	for range reps {
		for _, b := range m.sizes {
			all = append(all, m.sample(m.byDefault(b), b, bench.SelectionDefault, rng))
			for _, c := range m.configs() {
				all = append(all, m.sample(c, b, bench.SelectionForced, rng))
			}
		}
	}
	return all
}

func pooled(samples []bench.Sample) *Set {
	p := NewPool()
	for i := range samples {
		p.Add(&samples[i])
	}
	return p.Set()
}

func TestFitFindsWhatIsFaster(t *testing.T) {
	m := smallMachine()
	set := pooled(m.sweep(3, 1))
	file, report := Fit(set, Options{})
	if len(file.Groups) != 1 || set.Used != set.Rows || len(set.Refused) != 0 {
		t.Fatalf("%d groups, %d of %d rows used, refused %v", len(file.Groups), set.Used, set.Rows, set.Refused)
	}
	r := report.Groups[0]
	if g := r.Group; math.Abs(g.Noise-m.noise) > 0.3*m.noise || len(g.Twins) != 0 || len(r.Outliers) != 0 {
		t.Errorf("noise %.4f, want %.4f; twins %v, outliers %v, want none", g.Noise, m.noise, g.Twins, r.Outliers)
	}
	if len(r.Verdicts) != 2 {
		t.Fatalf("%d verdicts, want every other size and channels", len(r.Verdicts))
	}
	for _, v := range r.Verdicts {
		if v.Harm > 0 || v.Cautious.Mean >= v.Default.Mean || v.Plain.Mean > 1.05 {
			t.Errorf("%s left out: harm %d, policy %.4f, plain %.4f, default %.4f", v.LeftOut, v.Harm, v.Cautious.Mean, v.Plain.Mean, v.Default.Mean)
		}
	}
	if !(r.Gain > 0 && r.Gain <= r.MeasuredGain) {
		t.Errorf("gain %.4f of %.4f measured", r.Gain, r.MeasuredGain)
	}
	// At sizes nobody measured the choice is good by the truth.
	view := mustCompile(t, file).For(m.Nodes, m.Ranks)
	spoke := 0
	for b := uint64(5000); b < 250<<20; b = b * 7 / 5 {
		costs := costsAt(&Group{Default: []Cell{{Config: m.byDefault(b), Bytes: b}}}, []Cell{
			{Config: Config{FamilyKey: FamilyKey{policy.AlgoTree, policy.ProtoLL}}}, {Config: Config{FamilyKey: FamilyKey{policy.AlgoTree, policy.ProtoSimple}}},
			{Config: Config{FamilyKey: FamilyKey{policy.AlgoRing, policy.ProtoLL}}}, {Config: Config{FamilyKey: FamilyKey{policy.AlgoRing, policy.ProtoSimple}}},
		}, b)
		choice, why := view.Choose(m.Coll, b, costs)
		if why != policy.Speaks {
			continue
		}
		spoke++
		truth := m.micros(Config{FamilyKey{choice.Algo, choice.Proto}, choice.Channels}, b)
		if def := m.micros(m.byDefault(b), b); truth > 1.01*def {
			t.Errorf("at %d bytes %v takes %.1f us, the default %.1f", b, choice, truth, def)
		}
	}
	if spoke < 10 {
		t.Errorf("the model spoke at %d sizes: the test is too weak", spoke)
	}
}

func mustCompile(t testing.TB, file *policy.ModelFile) *policy.Model {
	t.Helper()
	m, err := policy.CompileModel("test", file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSameSamplesSameBytes(t *testing.T) {
	m := smallMachine()
	var first []byte
	for range 3 {
		file, _ := Fit(pooled(m.sweep(2, 5)), Options{})
		text, err := MarshalModel(file)
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
	read, err := policy.ReadModel("m.json", first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := MarshalModel(read.File)
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("read and written again, the file differs (%v)", err)
	}
}

func TestRefusedSamples(t *testing.T) {
	good := smallMachine().sample(Config{FamilyKey{policy.AlgoRing, policy.ProtoLL}, 4}, 1<<20, bench.SelectionForced, rand.New(rand.NewPCG(1, 1)))
	for _, test := range []struct {
		reason string
		change func(*bench.Sample)
	}{
		{RefusedTime, func(s *bench.Sample) { s.Micros = math.NaN() }},
		{RefusedTime, func(s *bench.Sample) { s.Micros = math.Inf(1) }},
		{RefusedTime, func(s *bench.Sample) { s.Micros = -3 }},
		{RefusedTime, func(s *bench.Sample) { s.Micros = 0 }},
		{RefusedSize, func(s *bench.Sample) { s.Bytes = 0 }},
		{RefusedComm, func(s *bench.Sample) { s.Nodes = 0 }},
		{RefusedComm, func(s *bench.Sample) { s.Ranks = 0 }},
		{RefusedOneRank, func(s *bench.Sample) { s.Nodes, s.Ranks = 1, 1 }},
		{RefusedLabel, func(s *bench.Sample) { s.Proto = bench.Unknown }},
		{RefusedChannels, func(s *bench.Sample) { s.Channels = 65 }},
		{RefusedColl, func(s *bench.Sample) { s.Coll = -1 }},
	} {
		bad := good
		test.change(&bad)
		set := pooled([]bench.Sample{good, bad})
		if set.Used != 1 || len(set.Refused) != 1 || set.Refused[0] != (Refusal{test.reason, 1}) {
			t.Errorf("used %d, refused %v; want 1 and %q", set.Used, set.Refused, test.reason)
		}
	}
	other := good
	other.InPlace = true
	if set := pooled([]bench.Sample{good, other}); set.Used != 1 || set.Refused[0].Reason != RefusedVariant {
		t.Errorf("in-place beside out-of-place: %+v", set)
	}
}

func TestOutlierIsFlaggedAndNotChosen(t *testing.T) {
	m := smallMachine()
	samples := m.sweep(1, 2)
	at := Config{FamilyKey{policy.AlgoRing, policy.ProtoSimple}, 4}
	for i, s := range samples {
		if s.Selection == bench.SelectionForced && s.Bytes == 64<<10 && (Config{FamilyKey{s.Algo, s.Proto}, s.Channels}) == at {
			samples[i].Micros /= 20
		}
	}
	set := pooled(samples)
	file, report := Fit(set, Options{})
	if o := report.Groups[0].Outliers; len(o) != 1 || o[0].Config != at || o[0].Bytes != 64<<10 {
		t.Errorf("outliers %v, want %v at 64KiB", o, at)
	}
	g := set.Groups[0]
	for _, o := range decide(mustCompile(t, file).For(m.Nodes, m.Ranks), g, []uint64{64 << 10}) {
		if (Config{FamilyKey{o.Choice.Algo, o.Choice.Proto}, o.Choice.Channels}) == at {
			t.Errorf("the outlier is chosen, expected %.1f us", o.Choice.Micros())
		}
	}
}

func TestTwinsAreNotChosen(t *testing.T) {
	m := smallMachine()
	samples := m.sweep(1, 4)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range samples {
		s := &samples[i]
		if s.Bytes == 1<<20 && s.Selection == bench.SelectionForced && s.Algo == policy.AlgoRing && s.Proto == policy.ProtoLL {
			c := Config{FamilyKey{policy.AlgoRing, policy.ProtoSimple}, s.Channels}
			s.Micros = m.micros(c, s.Bytes) * math.Exp(0.005*rng.NormFloat64())
		}
	}
	g := pooled(samples).Groups[0]
	if len(g.Twins) != 1 || g.Twins[0].Bytes != 1<<20 {
		t.Fatalf("twins %+v, want one at 1MiB", g.Twins)
	}
	view := compile(0, g).For(m.Nodes, m.Ranks)
	for _, b := range []uint64{600 << 10, 1 << 20, 2<<20 - 1} {
		if c, why := view.Choose(m.Coll, b, costsAt(g, g.bySize()[1<<20], 1<<20)); c.Algo == policy.AlgoRing {
			t.Errorf("at %d bytes %v is chosen (%v)", b, c, why)
		}
	}
}

// What is too little for a joint model still gives a result.
func TestLittleData(t *testing.T) {
	m := smallMachine()
	all := m.sweep(1, 6)
	for name, keep := range map[string]func(*bench.Sample) bool{
		"one size": func(s *bench.Sample) bool { return s.Bytes == 1<<20 },
		"one configuration": func(s *bench.Sample) bool {
			return s.Algo == policy.AlgoRing && s.Channels == 8 && s.Proto == policy.ProtoSimple
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
		model := mustCompile(t, file)
		Rows(model, RowOptions{})
		Rows(model, RowOptions{UnknownDefault: true})
		want := 1
		if name == "only default" || name == "nothing" {
			want = 0
		}
		if len(file.Groups) != want {
			t.Errorf("%s: %d groups, want %d (%+v)", name, len(file.Groups), want, report)
		}
		if name != "no default" {
			continue
		}
		g := pooled(some).Groups[0]
		for _, o := range decide(model.For(m.Nodes, m.Ranks), g, g.Sizes()) {
			if o.Silence != policy.SilentDefault {
				t.Errorf("without a default the model is silent at %d because %q", o.Bytes, o.Silence)
			}
		}
	}
}

// Node counts that were not measured get an answer only if asked for, and only a
// large gain is one.
func TestMoreNodes(t *testing.T) {
	m := smallMachine()
	g := pooled(m.sweep(1, 7)).Groups[0]
	costs := costsAt(g, g.Cells, 4<<10)
	if _, why := compile(0, g).For(4, 32).Choose(m.Coll, 4<<10, costs); why != policy.SilentNodes {
		t.Errorf("4 nodes, not asked for: silent because %q", why)
	}
	view := compile(4, g).For(4, 32)
	if _, why := view.Choose(m.Coll, 4<<10, costs); why != policy.SilentGain && why != policy.SilentBest {
		t.Errorf("4 nodes, a small gain: %q", why)
	}
	if _, why := compile(4, g).For(8, 64).Choose(m.Coll, 4<<10, costs); why != policy.SilentNodes {
		t.Errorf("8 nodes, 4 asked for: silent because %q", why)
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
	r, err := bench.ReadFile(sweepFile, bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set := pooled(r.Samples)
	if set.Simulated != set.Rows || set.Rows == 0 {
		t.Errorf("%d of %d rows are simulated, want all", set.Simulated, set.Rows)
	}
	file, _ := Fit(set, Options{})
	var got bytes.Buffer
	if err := WriteRows(&got, Rows(mustCompile(t, file), RowOptions{})); err != nil {
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

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
