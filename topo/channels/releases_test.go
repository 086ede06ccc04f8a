package channels

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// tuned are tunings by release, topology and number of hosts, which take long to derive.
var tuned = map[string]*tuning.Tuning{}

// choose is what the rules of a release say on one of the topologies of configs/topo.
func choose(t *testing.T, version nccl.Version, topology string, nodes int, coll string, bytes int64) string {
	t.Helper()
	key := fmt.Sprint(version, topology, nodes)
	if tuned[key] == nil {
		doc, err := topo.ReadFile("../../configs/topo/" + topology + ".xml")
		if err != nil {
			t.Fatal(err)
		}
		comms, err := Tune(doc, TuneOptions{Settings: topo.Settings{NCCL: version}}, nodes)
		if err != nil {
			t.Fatal(err)
		}
		tuned[key] = comms[0].Tuning
	}
	c := tuned[key].Choose(nccl.Coll(slices.Index(nccl.Colls.Known, coll)), bytes, 1)
	return fmt.Sprintf("%s/%s/%d", c.Algo, c.Proto, c.Channels)
}

func readRows(t *testing.T, file string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(nccltest.Read(t, file))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Where releases choose differently, each column of the file has what one of them chose: algorithm/protocol/channels.
func TestReleasesDiffer(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	rows := readRows(t, "testdata/releases.csv")
	for _, row := range rows[1:] {
		for i, want := range row[4:] {
			if want == "" {
				continue // not known
			}
			version, err := nccl.ParseVersion(rows[0][4+i])
			if err != nil {
				t.Fatal(err)
			}
			if got := choose(t, version, row[0], number(t, row[1]), row[2], int64(number(t, row[3]))); got != want {
				t.Errorf("NCCL %s, %s of %s bytes on %s hosts of %s: %s, want %s", version, row[2], row[3], row[1],
					row[0], got, want)
			}
		}
	}
}

// The share of the recorded choices that the rules of each release give. testdata/README.md says how they were
// recorded.
func TestReleasesAgree(t *testing.T) {
	const least = .99
	files, err := filepath.Glob("testdata/decisions/*.csv*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no choices of NCCL's releases (%v)", err)
	}
	if testing.Short() {
		files = files[len(files)-1:]
	}
	for _, file := range files {
		name, _, _ := strings.Cut(filepath.Base(file), ".csv")
		release, topology, _ := strings.Cut(name, "-")
		version, err := nccl.ParseVersion(release)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		rows := readRows(t, file)
		column := func(name string) int { return slices.Index(rows[0], name) }
		nodes, coll, bytes := column("nodes"), column("collective"), column("size_bytes")
		algo, proto, channels := column("algorithm"), column("protocol"), column("channels")
		logged := column("time_us") >= 0
		known, wrong := 0, []string(nil)
		for _, row := range rows[1:] {
			if row[algo] == "" || row[proto] == "" {
				continue // NCCL's log does not say
			}
			known++
			c := strings.ReplaceAll(row[coll], "_", "")
			got := choose(t, version, topology, number(t, row[nodes]), c, int64(number(t, row[bytes])))
			want := row[algo] + "/" + row[proto] + "/" + row[channels]
			if logged { // with the channels that a call used, which may be fewer than NCCL chose
				got, want = path.Dir(got), path.Dir(want)
			}
			if got != want {
				wrong = append(wrong, fmt.Sprintf("%s: %s", strings.Join(row, ","), got))
			}
		}
		share := 1 - float64(len(wrong))/float64(known)
		t.Logf("NCCL %s, %s: %.2f %% of %d choices", version, topology, 100*share, known)
		if !(share >= least) {
			t.Errorf("%s: %s", file, strings.Join(wrong[:min(20, len(wrong))], "\n"))
		}
	}
}

// What NCCL chose for communicators of some GPUs of a node. testdata/README.md says how it was recorded.
func TestSomeGPUsAgree(t *testing.T) {
	chosen := map[string]*tuning.Tuning{}
	var total nccltest.Score
	for _, row := range readRows(t, "testdata/some_gpus.csv.gz")[1:] {
		topology, gpus, nodes := row[0], row[1], number(t, row[2])
		where := fmt.Sprintf("GPUs %s of %s, %d nodes", gpus, topology, nodes)
		if chosen[where] == nil {
			doc, err := topo.ReadFile("../../configs/topo/" + topology + ".xml")
			if err != nil {
				t.Fatal(err)
			}
			var devs []int
			for dev := range strings.FieldsSeq(gpus) {
				devs = append(devs, number(t, dev))
			}
			if doc, err = doc.Only(devs); err != nil {
				t.Fatal(err)
			}
			comms, err := Tune(doc, TuneOptions{Settings: topo.Settings{NCCL: nccl.Reference}}, nodes)
			if err != nil {
				t.Fatal(err)
			}
			chosen[where] = comms[0].Tuning
		}
		coll, err := nccl.Colls.Parse(row[3])
		if err != nil {
			t.Fatal(err)
		}
		c := chosen[where].Choose(coll, int64(number(t, row[4])), 1)
		nccltest.Same(t, &total, row[3]+" of "+row[4]+" bytes", where, row[5],
			fmt.Sprintf("%s/%s/%d", c.Algo, c.Proto, c.Channels))
	}
	t.Logf("communicators of some GPUs: %s choices agree with NCCL", total)
}
