package topo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goldenDir holds NCCL 2.30.7's own answers, one folder per system.
const goldenDir = "../../shared/data/topo"

// goldenFiles lists the files of that name below goldenDir, or skips the test when the folder is not there.
func goldenFiles(t *testing.T, name string) []string {
	t.Helper()
	if _, err := os.Stat(goldenDir); err != nil {
		t.Skipf("SKIPPED: NCCL's own answers are not at %s, nothing was compared (%v)", goldenDir, err)
	}
	var files []string
	for _, pattern := range []string{"*", "fuzz/*"} {
		found, err := filepath.Glob(filepath.Join(goldenDir, pattern, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Skipf("SKIPPED: no %s below %s", name, goldenDir)
	}
	if testing.Short() { // every eighth
		var some []string
		for chunk := range slices.Chunk(files, 8) {
			some = append(some, chunk[0])
		}
		return some
	}
	return files
}

func goldenSystem(file string) string {
	return strings.TrimPrefix(filepath.Dir(file), filepath.Clean(goldenDir)+"/")
}

// goldenTuning is tuning.json with all that the cost model is computed from.
type goldenTuning struct {
	Nodes map[string]goldenNode `json:"nodes"`
}

type goldenNode struct {
	NNodes           int                                    `json:"nNodes"`
	NRanks           int                                    `json:"nRanks"`
	NChannels        int                                    `json:"nChannels"`
	NVLSChannels     int                                    `json:"nvlsChannels"`
	NVLSSupport      int                                    `json:"nvlsSupport"`
	MinCompCap       int                                    `json:"minCompCap"`
	MaxCompCap       int                                    `json:"maxCompCap"`
	CPUArch          CPUArch                                `json:"cpuArch"`
	CPUVendor        CPUVendor                              `json:"cpuVendor"`
	MinNetBW         float32                                `json:"minNetBw"`
	Graphs           ChannelGraphs                          `json:"graphs"`
	MaxThreads       [NumAlgos][NumProtos]int               `json:"maxThreads"`
	ThreadThresholds [NumAlgos][NumProtos]int64             `json:"threadThresholds"`
	Lat              [NumColls][NumAlgos][NumProtos]float32 `json:"lat"`
	Bw               [NumColls][NumAlgos][NumProtos]float32 `json:"bw"`
	Pipe1            map[string]goldenTimes                 `json:"pipe1"`
	Pipe4            map[string]goldenTimes                 `json:"pipe4"`
}

type goldenTimes struct {
	Times  map[string][]float32 `json:"times"`
	Choice []goldenChoice       `json:"choice"`
}

type goldenChoice struct {
	winner          string
	us              float32
	channels, warps int
}

func (c *goldenChoice) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&c.winner, &c.us, &c.channels, &c.warps})
}

// facts leaves MaxTreePattern empty: the reference was made without the exchange of tree patterns between ranks.
func (n goldenNode) facts() CommFacts {
	return CommFacts{
		NNodes: n.NNodes, NRanks: n.NRanks, MinCompCap: n.MinCompCap, MaxCompCap: n.MaxCompCap,
		CPUArch: n.CPUArch, CPUVendor: n.CPUVendor, MinNetBW: n.MinNetBW, NVLS: n.NVLSSupport != 0,
	}
}

func readGoldenTuning(t *testing.T, file string) goldenTuning {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var g goldenTuning
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return g
}

// tally counts agreement per field and keeps the first disagreements as examples.
type tally struct {
	order []string
	good  map[string]int
	all   map[string]int
	notes map[string][]string
}

func (a *tally) check(field string, ok bool, note func() string) {
	if a.good == nil {
		a.good, a.all, a.notes = map[string]int{}, map[string]int{}, map[string][]string{}
	}
	if a.all[field] == 0 {
		a.order = append(a.order, field)
	}
	a.all[field]++
	if ok {
		a.good[field]++
	} else if len(a.notes[field]) < 8 {
		a.notes[field] = append(a.notes[field], note())
	}
}

func (a *tally) log(t *testing.T) {
	for _, f := range a.order {
		t.Logf("%-32s %d of %d agree (%.2f %%)", f, a.good[f], a.all[f], 100*float64(a.good[f])/float64(a.all[f]))
		for _, n := range a.notes[f] {
			t.Logf("    %s", n)
		}
	}
}

func (a *tally) failures() int {
	n := 0
	for f := range a.all {
		n += a.all[f] - a.good[f]
	}
	return n
}

func same[T comparable](a *tally, field, where string, want, got T) {
	a.check(field, want == got, func() string { return fmt.Sprintf("%s: NCCL %v, here %v", where, want, got) })
}

func TestDeriveTuningAgreesWithNCCL(t *testing.T) {
	var a tally
	for _, file := range goldenFiles(t, "tuning.json") {
		for hosts, n := range readGoldenTuning(t, file).Nodes {
			where := goldenSystem(file) + " " + hosts
			got := DeriveTuning(n.Graphs, n.facts())
			same(&a, "channels", where, n.NChannels, got.NChannels)
			same(&a, "NVLS channels", where, n.NVLSChannels, got.NVLSChannels)
			same(&a, "max threads", where, n.MaxThreads, got.MaxThreads)
			same(&a, "thread thresholds", where, n.ThreadThresholds, got.ThreadThresholds)
			for c := range CollNames {
				for al := range AlgoNames {
					for p := range ProtoNames {
						at := fmt.Sprintf("%s %s %s/%s", where, CollNames[c], AlgoNames[al], ProtoNames[p])
						same(&a, "latency", at, n.Lat[c][al][p], got.Latencies[c][al][p])
						same(&a, "bandwidth", at, n.Bw[c][al][p], got.Bandwidths[c][al][p])
					}
				}
			}
			compareTimes(&a, "derived", where, n, got)
		}
	}
	a.log(t)
	if n := a.failures(); n > 0 {
		t.Errorf("%d values differ from NCCL's", n)
	}
}

func TestReadDumpedTuningAgreesWithNCCL(t *testing.T) {
	var a tally
	for _, file := range goldenFiles(t, "tuning.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set, err := ReadTuning(bytes.NewReader(data), file)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := WriteTuning(&compact, set); err != nil {
			t.Fatal(err)
		}
		again, err := ReadTuning(&compact, "compact form")
		if err != nil {
			t.Fatal(err)
		}
		for hosts, n := range readGoldenTuning(t, file).Nodes {
			where := goldenSystem(file) + " " + hosts
			compareTimes(&a, "dump", where, n, set.For(n.NNodes, n.NRanks))
			compareTimes(&a, "compact", where, n, again.For(n.NNodes, n.NRanks))
		}
	}
	a.log(t)
	if n := a.failures(); n > 0 {
		t.Errorf("%d values differ from NCCL's", n)
	}
}

// compareTimes compares all times and choices of one communicator size.
func compareTimes(a *tally, form, where string, n goldenNode, tuning *Tuning) {
	upper := func(algo, proto int) string {
		return strings.ToUpper(AlgoNames[algo]) + "/" + strings.ToUpper(ProtoNames[proto])
	}
	ncclColls := [NumColls]string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}
	for pipeOps, colls := range map[int]map[string]goldenTimes{1: n.Pipe1, 4: n.Pipe4} {
		for c, name := range ncclColls {
			want := colls[name]
			for i, choice := range want.Choice {
				bytes := int64(8) << i
				table := tuning.Table(c, bytes, pipeOps)
				for al := range table {
					for p, us := range table[al] {
						at := fmt.Sprintf("%s %s %s %d B x%d", where, name, upper(al, p), bytes, pipeOps)
						wantUs := Unavailable
						if times := want.Times[upper(al, p)]; times != nil {
							wantUs = times[i]
						}
						same(a, form+" times", at, wantUs, us)
					}
				}
				got := tuning.Choose(c, bytes, pipeOps)
				have := goldenChoice{upper(got.Algo, got.Proto), got.Micros, got.Channels, got.Warps}
				same(a, form+" choices", fmt.Sprintf("%s %s %d B x%d", where, name, bytes, pipeOps), choice, have)
			}
		}
	}
}
