package simulate

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

var swept = []nccl.Coll{nccl.CollAllReduce, nccl.CollAllGather, nccl.CollReduceScatter}

func tuningOf(t *testing.T, nodes int) *tuning.Tuning {
	t.Helper()
	machine, err := topo.Read("dgx-h100.xml", strings.NewReader(configs.DGXH100))
	if err != nil {
		t.Fatal(err)
	}
	comms, err := channels.Tune(machine, channels.TuneOptions{Settings: topo.Settings{NCCL: nccl.Reference}}, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return comms[0].Tuning
}

func options(t *testing.T, nodes int) Options {
	o := Options{Tuning: tuningOf(t, nodes), System: "test", Seed: 1, Colls: swept, Channels: []int{1, 4, 8, 16, 24},
		Repetitions: 2, Noise: .01}
	for n := uint64(1 << 10); n <= 1<<30; n *= 2 {
		o.Sizes = append(o.Sizes, n)
	}
	return o
}

func tidy(t *testing.T, samples []bench.Sample) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := bench.WriteTidy(&out, samples); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A sweep is read back as it was, marked in every row.
func TestReadBack(t *testing.T) {
	o := options(t, 2)
	o.Colls = nccl.AllColls()
	samples := Sweep(o)
	r, err := bench.Read(bytes.NewReader(tidy(t, samples)), "sweep.csv", bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.NumRejected() != 0 || len(r.Notes) != 0 || !reflect.DeepEqual(r.Samples, samples) {
		t.Errorf("%d samples became %d, rejected %v, notes %v", len(samples), len(r.Samples), r.Rejected, r.Notes)
	}
	for _, m := range r.Samples {
		if !m.Simulated || m.Source != "simulated:test/seed1" {
			t.Fatalf("not marked: %+v", m)
		}
	}
}

var update = flag.Bool("update", false, "write configs/sweeps anew")

// The sweeps that come with the project are what the simulator makes, on every machine.
func TestShippedSweeps(t *testing.T) {
	for nodes, channels := range map[int][]int{1: {1, 8, 16, 24}, 2: {1, 8, 16}} {
		o := options(t, nodes)
		o.System, o.Channels, o.Noise = "hgx-h100", channels, .007
		file, made := fmt.Sprintf("../../../configs/sweeps/simulated-hgx-h100-%dn.csv", nodes), tidy(t, Sweep(o))
		if *update {
			if err := os.WriteFile(file, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if shipped, err := os.ReadFile(file); err != nil || !bytes.Equal(made, shipped) {
			t.Errorf("%s is not what is made (%v): -update writes it", file, err)
		}
	}
}

// A cell has the same numbers whatever else is swept, and others with another seed.
func TestSeeds(t *testing.T) {
	o := options(t, 2)
	all := Sweep(o)
	part := o
	part.Colls, part.Channels, part.Sizes, part.Repetitions = swept[1:2], []int{8}, []uint64{1 << 20, 1 << 14}, 1
	for _, m := range Sweep(part) {
		if !slices.Contains(all, m) {
			t.Errorf("not in the larger sweep: %+v", m)
		}
	}
	o.Seed = 2
	same := 0
	for i, m := range Sweep(o) {
		if m.Micros == all[i].Micros {
			same++
		}
	}
	if same > len(all)/50 {
		t.Errorf("%d of %d times are those of another seed", same, len(all))
	}
}

func quantile(sorted []float64, q float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }

// Noise is as large as asked for, larger at small sizes, smaller at large ones,
// heavy in the tails and now and then far too slow; without noise there is none.
func TestNoise(t *testing.T) {
	o := options(t, 1)
	o.Repetitions = 8
	truth := NewTruth(o.Tuning, o.Seed)
	deviations := func() (small, middle, large []float64) {
		for _, m := range Sweep(o) {
			us, ok := truth.Micros(m.Coll, m.Config, m.Bytes)
			if !ok {
				t.Fatalf("no truth of %+v", m)
			}
			switch d := m.Micros/us - 1; {
			case m.Bytes < 64<<10:
				small = append(small, d)
			case m.Bytes > 16<<20:
				large = append(large, d)
			default:
				middle = append(middle, d)
			}
		}
		for _, d := range [][]float64{small, middle, large} {
			slices.Sort(d)
		}
		return small, middle, large
	}
	robust := func(sorted []float64) float64 { return (quantile(sorted, .75) - quantile(sorted, .25)) / 1.349 }
	small, middle, large := deviations()
	for _, c := range []struct {
		name    string
		d       []float64
		low, up float64
	}{
		{"small", small, .017, .023}, {"middle", middle, .0085, .0115}, {"large", large, .0042, .0058},
	} {
		if got := robust(c.d); got < c.low || got > c.up {
			t.Errorf("%s sizes: noise %.4f, want %v to %v", c.name, got, c.low, c.up)
		}
		if bias := quantile(c.d, .5); math.Abs(bias) > .002 {
			t.Errorf("%s sizes: the median is off by %.4f", c.name, bias)
		}
	}
	beyond := func(d []float64, limit float64) (n int) {
		for _, x := range d {
			if x > limit {
				n++
			}
		}
		return n
	}
	// A normal distribution would have 3 in 100 000 beyond 4 sigma.
	if tail, outliers := beyond(middle, .04), beyond(middle, .1); tail < len(middle)/500 || tail > len(middle)/50 ||
		outliers == 0 || outliers > len(middle)/200 {
		t.Errorf("of %d times %d are beyond 4 sigma and %d beyond 10", len(middle), tail, outliers)
	}
	o.Noise = 0
	for _, d := range slices.Concat(deviations()) {
		if math.Abs(d) > .0006 { // rounded as nccl-tests prints
			t.Fatalf("without noise a time is off by %v", d)
		}
	}
}

// Without noise, the time of a configuration never falls as the size grows, and
// is a positive number.
func TestTimesRise(t *testing.T) {
	for _, nodes := range []int{1, 2, 8, 64} {
		comm := tuningOf(t, nodes)
		for seed := range uint64(5) {
			truth := NewTruth(comm, seed)
			for x, m := range truth.cells {
				for channels := 1; channels <= m.limit; channels++ {
					last := 0.0
					for bytes := uint64(8); bytes <= MaxBytes; bytes += bytes/5 + 1 {
						us, ok := truth.Micros(x.Coll, nccl.Config{Cell: x.Cell, Channels: channels}, bytes)
						if !ok || !(us >= last) || us <= 0 || math.IsInf(us, 0) {
							t.Fatalf("%d nodes, seed %d, %v with %d channels: %v us at %d bytes after %v", nodes, seed,
								x, channels, us, bytes, last)
						}
						last = us
					}
				}
			}
		}
	}
}

// The effects that NCCL's model does not know are there.
func TestEffects(t *testing.T) {
	for seed := range uint64(10) {
		one, four := NewTruth(tuningOf(t, 1), seed), NewTruth(tuningOf(t, 4), seed)
		us := func(truth *Truth, algo nccl.Algo, proto nccl.Proto, channels int, bytes uint64) float64 {
			us, ok := truth.Micros(nccl.CollAllReduce, nccl.Config{Cell: nccl.Cell{Algo: algo, Proto: proto},
				Channels: channels}, bytes)
			if !ok {
				t.Fatalf("%v %v with %d channels is not there", algo, proto, channels)
			}
			return us
		}
		for _, c := range []struct {
			what    string
			ratio   float64
			low, up float64
		}{
			{"24 channels move more than 1",
				us(one, nccl.AlgoRing, nccl.ProtoSimple, 1, 1<<30) / us(one, nccl.AlgoRing, nccl.ProtoSimple, 24,
					1<<30), 8, 24},
			{"the last 4 of 24 add little",
				us(one, nccl.AlgoRing, nccl.ProtoSimple, 20, 1<<30) / us(one, nccl.AlgoRing, nccl.ProtoSimple, 24,
					1<<30), .9, 1.2},
			{"small sizes do not use many channels",
				us(one, nccl.AlgoRing, nccl.ProtoLL, 24, 8<<10) / us(one, nccl.AlgoRing, nccl.ProtoLL, 8, 8<<10), 1, 1},
			{"latency grows with channels over nodes",
				us(four, nccl.AlgoRing, nccl.ProtoSimple, 16, 1<<18) / us(four, nccl.AlgoRing, nccl.ProtoSimple, 4,
					1<<18), 1.1, 1.6},
			{"and hardly on one",
				us(one, nccl.AlgoRing, nccl.ProtoSimple, 16, 1<<18) / us(one, nccl.AlgoRing, nccl.ProtoSimple, 4,
					1<<18), .85, 1.1},
			{"NICs are contended for", us(four, nccl.AlgoRing, nccl.ProtoSimple, 16, 1<<34) / us(four, nccl.AlgoRing,
				nccl.ProtoSimple, 12, 1<<34), .85, 1.2},
			{"a partial loop costs", us(one, nccl.AlgoRing, nccl.ProtoSimple, 1, 4<<20+4096) / us(one, nccl.AlgoRing,
				nccl.ProtoSimple, 1, 4<<20), 1.1, 1.4},
		} {
			if !(c.ratio >= c.low && c.ratio <= c.up) {
				t.Errorf("seed %d: %s: ratio %.3f, want %v to %v", seed, c.what, c.ratio, c.low, c.up)
			}
		}
		if _, ok := one.Micros(nccl.CollAllReduce,
			nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoNVLSTree, Proto: nccl.ProtoSimple}, Channels: 16}, 1<<20); ok {
			t.Error("NVLSTree on one node")
		}
		if _, ok := one.Micros(nccl.CollAllReduce,
			nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple}, Channels: 25}, 1<<20); ok {
			t.Error("25 of 24 channels")
		}
	}
}

// Whatever the seed, NCCL's default leaves something to gain, and not too much.
func TestDefaultRegret(t *testing.T) {
	for _, nodes := range []int{1, 2, 8} {
		best, worst := math.Inf(1), 0.0
		for seed := range uint64(20) {
			o := options(t, nodes)
			o.Seed, o.Noise, o.Repetitions = seed, 0, 1
			fastest, byDefault := map[[2]uint64]float64{}, map[[2]uint64]float64{}
			for _, m := range Sweep(o) {
				key := [2]uint64{uint64(m.Coll), m.Bytes}
				if m.Selection == bench.SelectionDefault {
					byDefault[key] = m.Micros
				}
				if us, ok := fastest[key]; !ok || m.Micros < us {
					fastest[key] = m.Micros
				}
			}
			mean, most := 0.0, 0.0
			for key, us := range byDefault {
				mean += us / fastest[key] / float64(len(byDefault))
				most = max(most, us/fastest[key])
			}
			if len(byDefault) != len(o.Colls)*len(o.Sizes) || mean < 1.01 || mean > 1.25 || most < 1.1 || most > 2.5 {
				t.Errorf("%d nodes, seed %d: the default's regret is %.3f, at most %.3f, over %d questions", nodes,
					seed, mean, most, len(byDefault))
			}
			best, worst = min(best, most), max(worst, most)
		}
		if worst < 1.5 {
			t.Errorf("%d nodes: no seed makes the default wrong by more than %.2f", nodes, worst)
		}
	}
}

// What is forced is what NCCL offers: channels up to the communicator's, and
// only one count where it obeys none.
func TestGrid(t *testing.T) {
	for _, c := range []struct {
		nodes int
		want  string
	}{
		{1, "ring [1 4 8 16 24] tree [1 4 8 16 24] nvls [1 4 8 16]"},
		{2, "ring [1 4 8 16] tree [1 4 8 16] nvls_tree [1 4 8 16]"},
	} {
		o := options(t, c.nodes)
		counts := map[nccl.Algo][]int{}
		var algos []nccl.Algo
		rows := 0
		for _, m := range Sweep(o) {
			if m.Coll != nccl.CollAllReduce || m.Selection != bench.SelectionForced {
				continue
			}
			rows++
			if !slices.Contains(algos, m.Algo) {
				algos = append(algos, m.Algo)
			}
			if !slices.Contains(counts[m.Algo], m.Channels) {
				counts[m.Algo] = append(counts[m.Algo], m.Channels)
			}
		}
		var got []string
		configurations := 0
		for _, a := range algos {
			got = append(got, fmt.Sprint(a, counts[a]))
			protos := 3
			if a == nccl.AlgoNVLS || a == nccl.AlgoNVLSTree {
				protos = 1
			}
			configurations += protos * len(counts[a])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d nodes: %v, want %s", c.nodes, got, c.want)
		}
		if want := configurations * len(o.Sizes) * o.Repetitions; rows != want {
			t.Errorf("%d nodes: %d rows, want %d", c.nodes, rows, want)
		}
	}
}

// Between measured numbers of channels times are interpolated, and beyond them they stay.
func TestMeasuredChannels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sweep.csv")
	text := "collective,size_bytes,nodes,ranks,algorithm,protocol,channels,time_us\nallreduce,1024,1,8,,,,50\n"
	for channels, us := range map[int]float64{2: 80, 8: 20, 32: 10} {
		text += fmt.Sprintf("allreduce,1024,1,8,ring,ll,%d,%g\n", channels, us)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	g, err := Measured([]string{file}, nccl.CollAllReduce, nccl.Comm{Nodes: 1, Ranks: 8}, channels.Variables{})
	if err != nil {
		t.Fatal(err)
	}
	for channels, want := range map[int]float64{1: 80, 2: 80, 4: 40, 8: 20, 16: math.Sqrt(200), 32: 10, 64: 10} {
		c := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}, Channels: channels}
		if us, ok := g.Micros(c, false, 1024); !ok || math.Abs(us-want) > 1e-9 {
			t.Errorf("%s: %g us, want %g", c, us, want)
		}
	}
}
