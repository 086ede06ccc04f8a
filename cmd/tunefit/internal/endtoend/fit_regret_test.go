package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// partOfGrid is what is fitted of a grid that was measured whole, and what its policy is judged by.
type partOfGrid struct{ fitted, judged []bench.Sample }

// partsOfGrid are the ways to leave something out, as docs/dev/MODEL.md has them.
var partsOfGrid = []struct {
	name string
	// mean and harm are limits: of time / best time measured, and of the share of sizes that take more than 1 % longer
	// than NCCL's choice.
	mean, harm float64
	parts      func(grid []bench.Sample) []partOfGrid
}{
	{"every other size", 1.016, 0.03, everyOtherSize},
	{"half of the points", 1.0105, 0.01, draws(func(rng *rand.Rand, s *bench.Sample) bool {
		return s.Selection == bench.SelectionDefault || rng.Float64() < 0.5
	})},
	{"a quarter", 1.0405, 0.01, draws(func(rng *rand.Rand, s *bench.Sample) bool {
		return s.Selection == bench.SelectionDefault || rng.Float64() < 0.25
	})},
	{"all, 1 % noise", 1.0019, 0.005, draws(func(rng *rand.Rand, s *bench.Sample) bool {
		s.Micros *= math.Exp(0.01 * rng.NormFloat64())
		return true
	})},
}

// everyOtherSize leaves out the odd sizes, then the even ones. Those between two that are left judge.
func everyOtherSize(grid []bench.Sample) (all []partOfGrid) {
	var sizes []uint64
	for _, s := range grid {
		sizes = append(sizes, s.Bytes)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	for parity := range 2 {
		var p partOfGrid
		for _, s := range grid {
			switch i := slices.Index(sizes, s.Bytes); {
			case i%2 == parity:
				p.fitted = append(p.fitted, s)
			case i > 0 && i+1 < len(sizes):
				p.judged = append(p.judged, s)
			}
		}
		all = append(all, p)
	}
	return all
}

// draws are random parts of a grid, which the whole grid judges. The function may change its sample.
func draws(keep func(*rand.Rand, *bench.Sample) bool) func([]bench.Sample) []partOfGrid {
	const seeds = 20
	return func(grid []bench.Sample) (all []partOfGrid) {
		for seed := range uint64(seeds) {
			rng, p := rand.New(rand.NewPCG(seed, 12)), partOfGrid{judged: grid}
			for _, s := range grid {
				if keep(rng, &s) {
					p.fitted = append(p.fitted, s)
				}
			}
			all = append(all, p)
		}
		return all
	}
}

// What the policy of `fit --csv` costs over the whole of a grid of which it knows a part. -v prints the table.
func TestFittedPolicyRegret(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	var grids [][]bench.Sample
	for _, name := range []string{"mi355x-allreduce", "a6000-allreduce", "mi355x-broadcast"} {
		r, err := testlib.Measurements(filepath.Join("../../../../docs/measured", name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		byComm := map[nccl.Comm][]bench.Sample{}
		for _, s := range r.Samples {
			byComm[s.Comm] = append(byComm[s.Comm], s)
		}
		for _, grid := range byComm {
			grids = append(grids, grid)
		}
	}
	for _, part := range partsOfGrid {
		sizes, harm, sum := 0, 0, 0.0
		for _, grid := range grids {
			for _, p := range part.parts(grid) {
				j := judgePolicy(t, p)
				n := j.Policy.Decisions
				sizes, harm, sum = sizes+n, harm+j.Slower, sum+float64(n)*j.Policy.Mean
			}
		}
		mean, harmed := sum/float64(sizes), float64(harm)/float64(sizes)
		t.Logf("%-20s %.4f of the best time, harm at %.1f %% of %d sizes", part.name, mean, 100*harmed, sizes)
		if mean > part.mean || harmed > part.harm {
			t.Errorf("%s: %.4f, harm %.4f; must be at most %.4f, %.4f", part.name, mean, harmed, part.mean, part.harm)
		}
	}
}

type judgedPolicy struct {
	Policy struct {
		Decisions int
		Mean      float64
	}
	Default struct{ Mean float64 }
	Slower  int `json:"slower_than_default"`
}

// judgePolicy fits one part of a grid, and judges the policy by the other as the commands do. A grid of which nothing
// is worth a row is left to NCCL.
func judgePolicy(t *testing.T, p partOfGrid) judgedPolicy {
	t.Helper()
	dir := t.TempDir()
	train, truth := filepath.Join(dir, "train.csv"), filepath.Join(dir, "truth.csv")
	rows := filepath.Join(dir, "rows.csv")
	writeSweep(t, train, p.fitted)
	writeSweep(t, truth, p.judged)
	if code, _, errs := runAlone("fit", train, "--csv", rows); code != cli.ExitOK {
		if !strings.Contains(errs, "no row would improve on the default for sure") {
			t.Fatal(errs)
		}
		// A row that never decides: all is NCCL's.
		rows = testlib.File(t, "none.csv", "allreduce,0,1,ring,ll,1,1,2,-1,-1\n")
	}
	out, _ := tunefit(t, cli.ExitOK, "check", "--json", rows, "--measured", truth)
	var judged []judgedPolicy
	if err := json.Unmarshal([]byte(out), &judged); err != nil || len(judged) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	return judged[0]
}

func writeSweep(t *testing.T, name string, samples []bench.Sample) {
	t.Helper()
	if err := cli.WriteWhole(name, false, func(w io.Writer) error { return bench.WriteTidy(w, samples) }); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", name, err))
	}
}
