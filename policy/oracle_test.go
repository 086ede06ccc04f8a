package policy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// plainRow is a row as a reader of the format's description would scan it: one after the other, no
// index, no compilation.
type plainRow struct {
	coll                   string
	min, max               uint64
	minPerRank, maxPerRank uint64
	algo, proto            string
	nodes, ranks, perNode  int
	pipeOps, regBuff       int
	channels               int
	nccl                   string         // "-1" or a key of plainReleases
	name                   string         // "-1", a name, or its beginning and *
	when                   plainCondition // nil: always
}

var (
	plainColls  = []string{"broadcast", "reduce", "allgather", "reducescatter", "allreduce"}
	plainAlgos  = []string{"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}
	plainProtos = []string{"ll", "ll128", "simple"}
)

// What a communicator's NCCL may be, which of these ranges of rows match, and names.
var (
	testReleases  = []string{"2.28.9", "2.30.7", "2.31.2", "2.30.3-2.32.5"}
	plainReleases = map[string][]string{
		"2.28": {"2.28.9"}, ">=2.30": {"2.30.7", "2.31.2", "2.30.3-2.32.5"}, "<2.31": {"2.28.9", "2.30.7"},
		"2.30.7-2.31.2": {"2.30.7", "2.31.2"},
	}
	testNames = []string{"", "dp", "tp", "dp:1"}
)

func release(text string) nccl.Releases {
	r, err := nccl.ParseReleases(text)
	if err != nil {
		panic(err)
	}
	return r
}

func (r *plainRow) matches(q *Query, c Comm) bool {
	nodes, ranks := c.Nodes, c.Ranks
	is := func(want, got int) bool { return want == -1 || want == got }
	perRank := q.Bytes / uint64(ranks)
	perNode := -2
	if ranks%nodes == 0 {
		perNode = ranks / nodes
	}
	return (r.coll == "any" || r.coll == plainColls[q.Coll]) &&
		r.min <= q.Bytes && q.Bytes <= r.max && r.minPerRank <= perRank && perRank <= r.maxPerRank &&
		is(r.nodes, nodes) && is(r.ranks, ranks) && is(r.perNode, perNode) && is(r.pipeOps, q.PipeOps) &&
		is(r.regBuff, q.RegBuff) &&
		(r.nccl == "-1" || slices.Contains(plainReleases[r.nccl], c.NCCL.String())) &&
		(r.name == "-1" || r.name == c.Name || r.name == "d*" && strings.HasPrefix(c.Name, "d")) &&
		(r.when == nil || r.when(q, c))
}

func allows(want, name string) bool {
	if avoid, ok := strings.CutPrefix(want, "!"); ok {
		return avoid != name
	}
	return want == "-1" || want == "default" || want == name
}

// plainScan returns the deciding row and the cell it decides for, or -1.
func plainScan(rows []plainRow, q *Query, comm Comm) (row, cell int) {
	for i := range rows {
		r := &rows[i]
		if !r.matches(q, comm) {
			continue
		}
		best := -1
		for c, micros := range q.Costs.Micros {
			if micros >= 0 && allows(r.algo, plainAlgos[c/3]) && allows(r.proto, plainProtos[c%3]) &&
				(best < 0 || micros < q.Costs.Micros[best]) {
				best = c
			}
		}
		if best >= 0 {
			return i, best
		}
	}
	return -1, -1
}

// plainChannels is the row's count, where NCCL checks it and it is certain which cell it is for.
func plainChannels(r plainRow, cell int, q Query, c Comm) int {
	algo, costs := plainAlgos[cell/3], q.Costs
	if r.channels < 0 || strings.HasPrefix(algo, "collnet") || algo == "nvls" && c.Nodes > 1 ||
		plainColls[q.Coll] == "allgather" && c.NCCL.MayUseUncheckedAllGather() {
		return 0
	}
	keepsNCCLs := (r.algo == "-1" || r.algo == "default") && r.proto == "-1"
	for i, micros := range costs.Micros {
		if keepsNCCLs && i != cell && micros == costs.Micros[cell] {
			return 0
		}
	}
	return min(r.channels, 64)
}

// dice are a source of random numbers: math/rand's or rapid's.
type dice interface {
	IntN(n int) int
	Uint64N(n uint64) uint64
}

// randomCosts fills a table of which some cells are unavailable.
func randomCosts(rng dice) nccl.Costs {
	micros := make([]float32, 21)
	for i := range micros {
		micros[i] = float32(5 + rng.IntN(40)) // whole numbers, so that ties occur
		if rng.IntN(3) == 0 {
			micros[i] = -1
		}
	}
	return nccl.Costs{Micros: micros, NumProto: 3}
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func compare(t fataler, v *View, rows []plainRow, q Query, comm Comm) {
	t.Helper()
	wantRow, wantCell := plainScan(rows, &q, comm)
	got := v.Decide(q)
	gotCell := q.Costs.Index(got.Cell)
	if got.Tied { // NCCL's choice among equals: the scan takes the first, releases of NCCL differ
		gotCell = wantCell
	}
	if got.Rule != wantRow || wantRow >= 0 && gotCell != wantCell {
		t.Fatalf("%+v on %+v:\ngot row %d, cell %d,%d; the plain scan says row %d, cell %d",
			q, comm, got.Rule, got.Algo, got.Proto, wantRow, wantCell)
	}
	if wantRow >= 0 && got.Channels != plainChannels(rows[wantRow], wantCell, q, comm) {
		t.Fatalf("%+v on %+v: %d channels by row %d for cell %d", q, comm, got.Channels, wantRow, wantCell)
	}
	if wantRow >= 0 && v.policy.Rules[wantRow].Cells != everyCell { // else the table stays NCCL's, ties and all
		checkWins(t, q.Costs, got)
	}
}

// checkWins applies a decision to the table: NCCL must then choose that cell, with no tie, and
// whatever was written must be a believable time.
func checkWins(t fataler, costs nccl.Costs, d Decision) {
	t.Helper()
	cell := costs.Index(d.Cell)
	after := append([]float32(nil), costs.Micros...)
	if d.Write {
		after[cell] = d.Micros
	}
	for i, micros := range after {
		if i != cell && micros >= 0 && micros <= after[cell] {
			t.Fatalf("cell %d (%g) is not above the chosen cell %d (%g)", i, micros, cell, after[cell])
		}
	}
	if before := costs.Micros[cell]; before < 0 || after[cell] <= 0 || after[cell] > before {
		t.Fatalf("cell %d goes from %g to %g", cell, before, after[cell])
	}
}

// Files for NCCL's example tuner and for RCCL answer as a plain scan of them: those in testdata, which have every column
// and spelling, and the 3000 rows that AMD publishes for MI355X.
func TestFilesOfOtherTuners(t *testing.T) {
	files, _ := filepath.Glob("testdata/formats/*.conf")
	if len(files) < 2 {
		t.Fatalf("only %q", files)
	}
	for _, file := range append(files, "../../shared/data/policies/amd_xai_gfx950_tuner.conf") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil && strings.Contains(file, "shared") {
				t.Skipf("SKIPPED, the reference data is not there: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			answersAsAPlainScan(t, file, string(text))
		})
	}
}

// plainRows reads a file as NCCL's example tuner does, where that makes sense of it.
func plainRows(t *testing.T, text string) (rows []plainRow) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || strings.HasPrefix(line, "collective_type") {
			continue
		}
		f := append(strings.Split(line, ","), "-1", "-1") // the last two may be left out
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		number := func(i int) int {
			n, err := strconv.Atoi(f[i])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		rows = append(rows, plainRow{coll: f[0], nccl: "-1", name: "-1", min: uint64(number(1)), max: uint64(number(2)),
			maxPerRank: nccl.Inf, algo: f[3], proto: f[4], nodes: number(6), ranks: number(7), perNode: -1,
			pipeOps: number(8), regBuff: number(9), channels: number(5)})
	}
	return rows
}

func answersAsAPlainScan(t *testing.T, file, text string) {
	t.Helper()
	p, err := ReadCSV(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	rows := plainRows(t, text)
	if len(p.Rules) != len(rows) {
		t.Fatalf("%d rules of %d rows", len(p.Rules), len(rows))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	decided, tries := 0, 40_000
	if testing.Short() {
		tries /= 10
	}
	for range tries {
		nodes := 1 + rng.IntN(10)
		q := Query{Call: nccl.Call{Coll: nccl.Coll(rng.IntN(nccl.NumColls)), Bytes: rng.Uint64N(600 << 20)},
			PipeOps: 1 + rng.IntN(3), RegBuff: rng.IntN(2), Costs: randomCosts(rng)}
		if rng.IntN(2) == 0 { // at an edge of some row
			r := rows[rng.IntN(len(rows))]
			q.Bytes = []uint64{r.min, r.max, r.max + 1, r.min - 1}[rng.IntN(4)]
		}
		comm := Comm{Comm: nccl.Comm{Nodes: nodes, Ranks: nodes * []int{1, 8}[rng.IntN(2)]}}
		v := p.For(comm)
		compare(t, v, rows, q, comm)
		if v.Decide(q).Rule >= 0 {
			decided++
		}
	}
	if decided < tries/80 {
		t.Errorf("only %d of %d queries met a row: the test is too weak", decided, tries)
	}
}

// Random files with every kind of overlap, wildcard and avoidance.
func TestRandomFilesAnswerAsAPlainScan(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		rows, text := randomFile(rng, 1+rng.IntN(120))
		p, err := ReadCSV("random.csv", []byte(text))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for range 400 {
			comm, q := randomCall(rng)
			compare(t, p.For(comm), rows, q, comm)
		}
	}
}

func randomCall(rng dice) (Comm, Query) {
	nodes := 1 + rng.IntN(3)
	comm := Comm{Comm: nccl.Comm{Nodes: nodes, Ranks: nodes*(1+rng.IntN(3)) + rng.IntN(2)}, NVLDomains: rng.IntN(3),
		Topo: testTopologies[rng.IntN(len(testTopologies))], Name: testNames[rng.IntN(len(testNames))],
		NCCL: release(testReleases[rng.IntN(len(testReleases))])}
	q := Query{Call: nccl.Call{Coll: nccl.Coll(rng.IntN(nccl.NumColls)), Bytes: rng.Uint64N(64)}, PipeOps: rng.IntN(3),
		RegBuff: rng.IntN(3) - 1, Costs: randomCosts(rng)}
	if rng.IntN(20) == 0 {
		q.Bytes = nccl.Inf - rng.Uint64N(3)
	}
	return comm, q
}

func randomFile(rng dice, n int) (rows []plainRow, text string) {
	var b strings.Builder
	b.WriteString(
		"collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,reg_buff,ranks_per_node,min_bytes_per_rank,max_bytes_per_rank,nccl,comm_name,when\n")
	var conditions conditionPool
	narrow := rng.IntN(2) == 0
	either := func(values ...string) string { return values[rng.IntN(len(values))] }
	small := func(from, n int) int { // -1 most of the time
		if rng.IntN(3) > 0 {
			return -1
		}
		return from + rng.IntN(n)
	}
	for range n {
		r := plainRow{
			coll: either(append(plainColls, "any")...), maxPerRank: nccl.Inf, max: nccl.Inf,
			algo:  either("ring", "tree", "nvls", "-1", "!ring", "!tree", "pat", "default"),
			proto: either("ll", "simple", "ll128", "-1", "!ll"),
			nodes: small(1, 3), ranks: small(1, 7), perNode: small(1, 3), pipeOps: small(0, 3), regBuff: small(0, 2),
			channels: small(1, 100),
		}
		if narrow { // rows that differ only in their conditions and sizes
			r = plainRow{coll: "any", maxPerRank: nccl.Inf, max: nccl.Inf, algo: either("ring", "tree"),
				proto: either("-1", "simple"),
				nodes: -1, ranks: -1, perNode: -1, pipeOps: -1, regBuff: -1, channels: small(1, 100)}
		}
		for r.nodes > r.ranks && r.ranks > 0 ||
			r.perNode > 0 && r.ranks > 0 && (r.ranks%r.perNode != 0 || r.nodes > 0 && r.nodes*r.perNode != r.ranks) {
			r.nodes, r.ranks, r.perNode = small(1, 3), small(1, 7), small(1, 3) // no such communicator: not a legal row
		}
		if r.algo == "default" {
			r.proto, r.channels = "-1", -1
		}
		r.nccl, r.name = "-1", "-1"
		if rng.IntN(3) == 0 {
			r.nccl = either("2.28", ">=2.30", "<2.31", "2.30.7-2.31.2")
		}
		if rng.IntN(3) == 0 {
			r.name = either("dp", "tp", "d*")
		}
		r.min = rng.Uint64N(60)
		if rng.IntN(4) > 0 {
			r.max = r.min + rng.Uint64N(20)
		}
		if rng.IntN(4) == 0 {
			r.minPerRank = rng.Uint64N(20)
			if rng.IntN(2) == 0 {
				r.maxPerRank = r.minPerRank + rng.Uint64N(10)
			}
		}
		var when string
		if rng.IntN(2) == 0 {
			when, r.when = conditions.pick(rng)
		}
		rows = append(rows, r)
		max := func(n uint64) string {
			if n == nccl.Inf {
				return either("inf", "-1", "any", "", "18446744073709551615")
			}
			return strconv.FormatUint(n, 10)
		}
		fmt.Fprintf(&b, "%s,%d,%s,%s,%s,%d,%d,%d,%d,%d,%d,%d,%s,%s,%s,\"%s\"\n", r.coll, r.min, max(r.max), r.algo,
			r.proto, r.channels,
			r.nodes, r.ranks, r.pipeOps, r.regBuff, r.perNode, r.minPerRank, max(r.maxPerRank), r.nccl, r.name,
			strings.ReplaceAll(when, `"`, `""`))
	}
	return rows, b.String()
}
