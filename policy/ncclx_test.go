package policy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// randomInterval writes which numbers a rule of NCCLX wants, in one of its ways, and says whether it wants one. The
// numbers are edges, ascending.
func randomInterval(rng *rand.Rand, edges []uint64) (text string, wants func(uint64) bool) {
	i := rng.IntN(len(edges) - 1)
	low, high := edges[i], edges[i+1]
	switch rng.IntN(8) {
	case 0:
		return "*", func(uint64) bool { return true }
	case 1:
		return fmt.Sprint(low), func(n uint64) bool { return n == low }
	case 2:
		return fmt.Sprintf("[%d,%d]", low, high), func(n uint64) bool { return low <= n && n <= high }
	case 3:
		return fmt.Sprintf("(%d, %d]", low, high), func(n uint64) bool { return low < n && n <= high }
	case 4:
		return fmt.Sprintf("[%d,%d)", low, high), func(n uint64) bool { return low <= n && n < high }
	case 5:
		return fmt.Sprintf("(%d,)", low), func(n uint64) bool { return low < n }
	case 6:
		return fmt.Sprintf("[%d,)", low), func(n uint64) bool { return low <= n }
	}
	return fmt.Sprintf("(,%d]", high), func(n uint64) bool { return n <= high }
}

// Rules of NCCLX answer as a plain scan of them, in CSV and in JSON.
func TestRulesOfNCCLX(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	sizes := []uint64{0, 1, 4096, 65536, 1 << 20, 16 << 20}
	pick := func(list []string) string { return list[rng.IntN(len(list))] }
	decided := 0
	for range 300 {
		table, rules := "# rules\n\nallreduce,[0,0],ring,ll,1,1,1\n",
			`{"rules": [{"filter":{"collective":"allreduce","bytesPerRank":0,"nNodes":1,"nLocalRanks":1},`+
				`"config":{"algorithm":"ring","protocol":"ll","channels":1}}`
		rows := []plainRow{{coll: "allreduce", nccl: "-1", name: "-1", max: nccl.Inf, algo: "ring", proto: "ll", nodes: 1,
			ranks: -1, perNode: 1, pipeOps: -1, regBuff: -1, channels: 1}}
		for range 10 {
			size, wantsSize := randomInterval(rng, sizes)
			nodes, wantsNodes := randomInterval(rng, []uint64{1, 2, 3, 5, 8, 9})
			local, wantsLocal := randomInterval(rng, []uint64{1, 2, 4, 8, 9})
			r := plainRow{coll: pick(plainColls), nccl: "-1", name: "-1", max: nccl.Inf, maxPerRank: nccl.Inf,
				algo: pick(plainAlgos), proto: pick(plainProtos), nodes: -1, ranks: -1, perNode: -1, pipeOps: -1,
				regBuff: -1, channels: 1 + rng.IntN(32), when: func(q *Query, c Comm) bool {
					return wantsSize(q.Bytes/uint64(c.Ranks)) && wantsNodes(uint64(c.Nodes)) &&
						(local == "*" || c.Ranks%c.Nodes == 0 && wantsLocal(uint64(c.Ranks/c.Nodes)))
				}}
			rows = append(rows, r)
			table += fmt.Sprintf(" %s , %s,%s,%s,%d,%s ,%s%s\n", r.coll, size, r.algo, r.proto, r.channels, nodes, local,
				pick([]string{"", ",0", ","}))
			rules += fmt.Sprintf(",\n{\"config\":{\"protocol\":%q,\"algorithm\":%q,\"channels\":\"%d\"},\n"+
				"\"filter\":{\"collective\":%q,\"nLocalRanks\":%q,\"nNodes\":%q,\"bytesPerRank\":%q}}", r.proto, r.algo,
				r.channels, r.coll, local, nodes, size)
		}
		p, err := ReadCSV("x.csv", []byte(table))
		if err != nil {
			t.Fatalf("%v\n%s", err, table)
		}
		same, err := ReadCSV("x.json", []byte(rules+"]}\n"))
		if err != nil {
			t.Fatalf("%v\n%s", err, rules)
		}
		if same.Digest != p.Digest {
			t.Fatalf("another meaning:\n%s\n%s", table, rules)
		}
		for range 200 {
			nodes := 1 + rng.IntN(9)
			comm := Comm{Comm: nccl.Comm{Nodes: nodes, Ranks: nodes*(1+rng.IntN(9)) + rng.IntN(2)*rng.IntN(nodes)}}
			at := sizes[rng.IntN(len(sizes))] * uint64(comm.Ranks)
			q := Query{Call: nccl.Call{Coll: nccl.Coll(rng.IntN(nccl.NumColls)), Bytes: at + rng.Uint64N(3)},
				PipeOps: 1, Costs: randomCosts(rng)}
			if rng.IntN(2) == 0 {
				q.Bytes = max(q.Bytes, 2) - 2
			}
			v := p.For(comm)
			compare(t, v, rows, q, comm)
			if v.Decide(q).Rule >= 0 {
				decided++
			}
		}
	}
	if decided < 5000 {
		t.Errorf("only %d queries met a row: the test is too weak", decided)
	}
}

// Each rule stands on its own line, and what a person wrote is found again.
func TestPlacesInRulesOfNCCLX(t *testing.T) {
	rules := "\ufeff\n{ \"rules\": [\n\n  { \"filter\": { \"collective\": \"allgather\" },\n    \"config\": " +
		"{ \"algorithm\": \"ring\", \"protocol\": \"ll\", \"chunkSize\": 4096 } },\n  { \"config\": { \"algorithm\": " +
		"\"ring\", \"protocol\": \"ll\" }, \"filter\": { \"collective\": \"reduce\", \"bytesPerRank\": \"[1,2]\" } }" +
		"]}"
	p, err := ReadCSV("x.json", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Rules) != 2 || p.Rules[0].Line != 4 || p.Rules[1].Line != 6 || p.Rules[0].ChunkBytes != 4096 {
		t.Errorf("%+v", p.Rules)
	}
	s, err := ReadSheet([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(s.Row(6)), `reduce,"[1,2]",ring,ll,,,,`; got != want {
		t.Errorf("row %q, want %q", got, want)
	}
}

// A row that NCCL's own format has, with a number too few, is no rule of NCCLX.
func TestNotRulesOfNCCLX(t *testing.T) {
	for text, want := range map[string]string{
		"allreduce,65536,ring,simple,8,2,16\n":                         "x.csv:1: the row ends with field 7, before ranks",
		"collective,when,algorithm\nallreduce,(nodes > 1),ring\n":      "",
		"allreduce,*,inf,ring,simple,8,2,16\n":                         "",
		"collective,comment,algorithm\nallreduce,\"[0,1] (x)\",ring\n": "",
	} {
		_, err := ReadCSV("x.csv", []byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The example that comes with NCCLX.
func TestExampleOfNCCLX(t *testing.T) {
	text, err := os.ReadFile("../../shared/data/policies/meta_ncclx_example_tuner_config.json")
	if err != nil {
		t.Skipf("SKIPPED, the reference data is not there: %v", err)
	}
	p, err := ReadCSV("example.json", text)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"ring/ll128", "tree/simple 4 ch", "ring/simple, chunks of 512KiB", "ring/simple",
		"ring/ll128"} {
		if i >= len(p.Rules) || p.Rules[i].Asks() != want {
			t.Fatalf("rule %d of %d is not %s", i, len(p.Rules), want)
		}
	}
	if w := p.Rules[3].When.String(); w != "nodes >= 2" {
		t.Error(w)
	}
}
