package channels

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/golden"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
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
		comms, err := Tune(doc, TuneOptions{NCCL: version}, nodes)
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
	rows, err := csv.NewReader(bytes.NewReader(golden.Read(t, file))).ReadAll()
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
				t.Errorf("NCCL %s, %s of %s bytes on %s hosts of %s: %s, want %s", version, row[2], row[3], row[1], row[0], got, want)
			}
		}
	}
}

// The share of all known choices that the rules of each release give. They were taken from the releases' host code, run
// without a tuner.
func TestReleasesAgree(t *testing.T) {
	const least = .99
	files, err := filepath.Glob("testdata/decisions/v*.csv.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no choices of NCCL's releases (%v)", err)
	}
	if testing.Short() {
		files = files[len(files)-1:]
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "v"), ".csv.gz")
		version, err := nccl.ParseVersion(name)
		if err != nil {
			t.Fatal(err)
		}
		rows := readRows(t, file)[1:]
		var wrong []string
		for _, row := range rows { // version,topology,nodes,ranks,collective,bytes,algorithm,protocol,channels
			want := strings.Join(row[6:9], "/")
			if got := choose(t, version, row[1], number(t, row[2]), row[4], int64(number(t, row[5]))); got != want {
				wrong = append(wrong, fmt.Sprintf("%s: %s", strings.Join(row, ","), got))
			}
		}
		share := 1 - float64(len(wrong))/float64(len(rows))
		t.Logf("NCCL %s: %.2f %% of %d choices", version, 100*share, len(rows))
		if share < least {
			t.Errorf("NCCL %s: %s", version, strings.Join(wrong[:min(20, len(wrong))], "\n"))
		}
	}
}
