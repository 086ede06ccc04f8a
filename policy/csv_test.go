package policy

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Every bad file in testdata/bad is rejected with exactly the messages beside it.
func TestProblems(t *testing.T) {
	files, _ := filepath.Glob("testdata/bad/*.csv")
	if len(files) < 5 {
		t.Fatalf("only %d bad files", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ReadCSV(filepath.Base(file), text)
			if err == nil {
				t.Fatalf("accepted: %+v", p.Rules)
			}
			got := err.Error() + "\n"
			golden := strings.TrimSuffix(file, ".csv") + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

// The policies that come with the project are policies.
func TestReadyToUsePolicies(t *testing.T) {
	files, _ := filepath.Glob("../configs/policies/*.csv")
	if len(files) < 3 {
		t.Fatalf("only %d files", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := ReadCSV(file, text); err != nil || len(p.Rules) == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

const plain = "allreduce,1024,4096,ring,simple,8,2,16,-1,-1\n" +
	"allgather,0,18446744073709551615,tree,ll128,-1,-1,-1,-1,-1\n"

// Different ways to write one and the same policy.
func TestSpellings(t *testing.T) {
	want, err := ReadCSV("plain.csv", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 300_000)
	for name, text := range map[string]string{
		"8 and 9 columns": "allreduce,1024,4096,ring,simple,8,2,16\n" +
			"allgather,0,18446744073709551615,tree,ll128,-1,-1,-1,-1\n",
		"CRLF":            strings.ReplaceAll(plain, "\n", "\r\n"),
		"byte order mark": "\ufeff" + plain,
		"no last newline": strings.TrimSuffix(plain, "\n"),
		"comments and blanks": "# hello\n\n   \n" +
			strings.Replace(plain, "\n", "\n# a \"quoted\" comment\n,,,,,,,,,\n", 1),
		"quoted fields":    strings.ReplaceAll(plain, "allreduce", `"allreduce"`),
		"spaces":           strings.ReplaceAll(plain, ",", " ,\t"),
		"names":            "AllReduce,1K,4KiB,RING,Simple,8,2,16\nall_gather,any,inf,TREE,LL128,any,*,,-1\n",
		"last field empty": "allreduce,1024,4096,ring,simple,8,2,16,-1,-1,\nallgather,,,tree,ll128,,,\n",
		"NCCL's header":    "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n" + plain,
		"own header": "ranks,nodes,algorithm,protocol,collective,max_bytes,min_bytes,channels,comment,when\n" +
			"16,2,ring,simple,allreduce,4K,1K,8,\"a comment, with a comma\nand a line break\",\n" +
			",,tree,ll128,allgather,,,," + long + ",\n",
		"a comment that is long": "# " + long + "\n" + plain,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadCSV("x.csv", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest != want.Digest {
				t.Errorf("another meaning: %+v, want %+v", got.Rules, want.Rules)
			}
		})
	}
}

// What changes a decision changes the digest.
func TestDigestFollowsMeaning(t *testing.T) {
	values := map[string][2]string{
		"collective": {"allreduce", "allgather"}, "min_bytes": {"1", "0"}, "max_bytes": {"2", "3"},
		"algorithm": {"ring", "tree"}, "protocol": {"simple", "ll"},
		"channels": {"8", "9"}, "nodes": {"2", "-1"}, "ranks": {"16", "-1"}, "pipe_ops": {"1", "2"},
		"reg_buff": {"1", "0"}, "ranks_per_node": {"8", "-1"},
		"min_bytes_per_rank": {"3", "2"}, "max_bytes_per_rank": {"4", "5"}, "chunk_bytes": {"512", "1024"},
		"nccl": {"2.30", ">=2.30"}, "comm_name": {"dp", "dp*"},
		"when": {"bytes > 1", "bytes > 2"}, "comment": {"a", ""},
	}
	head := strings.Join(names(columns), ",") + "\n"
	base := make([]string, len(columns))
	for i, c := range columns {
		base[i] = values[c.name][0]
	}
	seen := map[identity.Digest]string{}
	for i := range columns {
		fields := slices.Clone(base)
		fields[i] = values[columns[i].name][1] // the comment's row is the base
		row := strings.Join(fields, ",")
		p, err := ReadCSV("x.csv", []byte(head+row+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if twin, ok := seen[p.Digest]; ok {
			t.Errorf("%s and %s have one digest", row, twin)
		}
		seen[p.Digest] = row
	}
	two, _ := ReadCSV("x.csv", []byte(plain))
	lines := strings.SplitAfter(plain, "\n")
	swapped, _ := ReadCSV("x.csv", []byte(lines[1]+lines[0]))
	if two.Digest == swapped.Digest {
		t.Error("the order of rows has no influence")
	}
}

func TestRuleFields(t *testing.T) {
	p, err := ReadCSV("x.csv",
		[]byte(
			"collective,algorithm,protocol,ranks_per_node,min_bytes_per_rank,max_bytes_per_rank,chunk_bytes,channels\n"+
				"reducescatter,!nvls_tree,!ll,4,1K,2M,128KiB,96\nalltoall,ring,simple,,,,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Rule{2,
		Match{Coll: nccl.CollReduceScatter, Bytes: nccl.EverySize, BytesPerRank: nccl.Range{Min: 1024, Max: 2 << 20},
			Numbers: [...]int32{Nodes: -1, Ranks: -1, RanksPerNode: 4, PipeOps: -1, RegBuff: -1}, NCCL: nccl.AnyRelease},
		Ask{Cells: CellSet{everyCell.algos &^ (1 << nccl.AlgoNVLSTree), everyCell.protos &^ (1 << nccl.ProtoLL)},
			Channels: 64, ChunkBytes: 128 << 10}}
	if !reflect.DeepEqual(p.Rules[0], want) {
		t.Errorf("got %+v\nwant %+v", p.Rules[0], want)
	}
	if p.NeverAsked != 1 {
		t.Errorf("%d rows for operations that no tuner is asked about", p.NeverAsked)
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "4096": 4096, "64KiB": 65536, "64k": 65536, "1M": 1 << 20,
		"1 MiB": 1 << 20, "3G": 3 << 30, "2TiB": 2 << 40,
		"18446744073709551615": 1<<64 - 1, "16777215T": 16777215 << 40, "7b": 7} {
		if got, err := nccl.ParseBytes(text); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
		if back, err := nccl.ParseBytes(nccl.FormatBytes(want)); want != nccl.Inf && (err != nil || back != want) {
			t.Errorf("%d is written as %q, which reads as %d, %v", want, nccl.FormatBytes(want), back, err)
		}
	}
	for _, text := range []string{"", "-5", "1.5M", "1e6", "M", "1MB", "1gb", "1Q", "1 000", "0x10",
		"18446744073709551616", "16777216T", "١"} {
		if got, err := nccl.ParseBytes(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

// No input makes the reader panic, and what it accepts can be decided with.
func FuzzReadCSV(f *testing.F) {
	f.Add([]byte(plain))
	f.Add([]byte("collective,algorithm,when\nallreduce,ring,\"bytes > 1\"\n"))
	for _, pattern := range []string{"testdata/bad/*.csv", "../configs/policies/*.csv"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, _ := os.ReadFile(file)
			f.Add(text[:min(len(text), 8<<10)])
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadCSV("fuzz.csv", text)
		if (p == nil) == (err == nil) {
			t.Fatal("neither a policy nor an error, or both")
		}
		if err != nil {
			return
		}
		costs := nccl.Costs{Micros: []float32{1, 2, 3, 4, 5, 6}, NumProto: 3}
		for _, bytes := range []uint64{0, 1, 1 << 20, nccl.Inf} {
			p.For(Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 16}}).Decide(
				Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: bytes}, PipeOps: 1, Costs: costs})
		}
	})
}

func BenchmarkWorstReadCSV(b *testing.B) {
	const header = "collective,algorithm,when,comm_name,nccl,min_bytes\n"
	hostile.Benchmark(b, func(text []byte) error {
		_, err := ReadCSV("x.csv", text)
		return err
	},
		hostile.Text{Head: header + "allreduce,", Unit: "x", Tail: "\n"},
		hostile.Text{Head: header + "allreduce,ring,,", Unit: "x", Tail: "\n"},
		hostile.Text{Head: header + "allreduce,ring,,,", Unit: "0", Tail: "2.31-2.30\n"},
		hostile.Text{Head: header + "allreduce,ring,,,,", Unit: "1", Tail: "KB\n"},
		hostile.Text{Head: header, Unit: "x%d,ring\n"},
		hostile.Text{Head: header, Unit: "allreduce,ring\n"},
		hostile.Text{Head: "collective,algorithm,when\n", Unit: "allreduce,ring,bytes > %d\n"},
		hostile.Text{Head: "collective,algorithm", Unit: ",x%d"},
		hostile.Text{Head: "collective,algorithm" + strings.Repeat(",x", 34) + "\n", Unit: "-1,-1\n"},
		hostile.Text{Head: "allreduce,[0,1],ring,ll,-1,(1,),*\n", Unit: "allreduce,[0,%d],ring,ll,-1,(1,9),(2,4)\n"},
		hostile.Text{Head: "allreduce,[0,1],ring,ll,-1,(1,),*\nallreduce,[", Unit: "1", Tail: ",0],ring,ll,-1,1,1\n"},
		hostile.Text{Head: `{"rules":[{"filter":{"`, Unit: "x", Tail: `":1}}]}`},
		hostile.Text{Head: `{"rules":[{"filter":{"collective":"`, Unit: "x", Tail: `"}}]}`},
		hostile.Text{Head: `{"rules":[{"filter":{`, Unit: `"a%d":1,`, Tail: `"a":1}}]}`},
		hostile.Text{Head: `{"rules":[`, Unit: "null,"},
		hostile.Text{Head: `{"rules":[`, Unit: `{"config":{"channels":1},"filter":{"nNodes":1}},`},
	)
}
