package lint

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// What is fixed is fixed in its field; all else stays to the byte.
func TestFix(t *testing.T) {
	before := "\ufeff  # a policy\r\n" +
		`Collective_Type , MIN_BYTES,max_bytes,algo,proto,nChannels,nNodes,nRanks,chunk_bytes,comment` + "\r\n" +
		`"allreduce", 1MiB , 4294967295 ,ring,simple, 96 ,2,16,,"large, and ""quoted""` + "\r\n  # no comment\r\n" +
		`"` + "\r\n" +
		"AllReduce,0,1048575,Tree,LL128,8,2,16,\"64K\",\r\n" +
		"\t# nvls\r\n" +
		"allreduce,0,inf,nvls,simple,12,4,32,,\r\n" +
		"allreduce,0,inf,NVLS,Simple,16,4,32,100\r\n" +
		"allreduce,0,-1,nvls,simple,12,4,32,,again\r\n" +
		"alltoall,0,-1,ring,simple,96,4,32,"
	want := strings.NewReplacer(" 4294967295 ", " inf ", " 96 ", " 64 ", `"64K"`, "65280", "simple,12,", "simple,-1,",
		",16,4,32,100", ",-1,4,32,512",
		"allreduce,0,-1,nvls,simple,12,4,32,,again\r\n", "").Replace(before)
	fixed, after, err := Fix("p.csv", []byte(before), Options{})
	if err != nil || string(after) != want {
		t.Fatalf("%v\n%q\nwant\n%q", err, after, want)
	}
	// The rows of nvls ask for the same only once their channels are taken away and are told apart
	// by their chunks.
	if len(fixed) != 7 {
		t.Errorf("%d fixes: %v", len(fixed), fixed)
	}
	checkFixed(t, after)
}

// checkFixed: nothing is left to fix, and a second run changes nothing.
func checkFixed(t *testing.T, text []byte) {
	t.Helper()
	for _, f := range Check("p.csv", text, Options{}) {
		if f.Fixable || f.Rule == Invalid {
			t.Errorf("left: %s", f)
		}
	}
	fixed, again, err := Fix("p.csv", text, Options{})
	if err != nil || string(again) != string(text) || len(fixed) > 0 {
		t.Errorf("a second fix: %v, %v", err, fixed)
	}
}

// A bound is left where a row counts on it.
func TestBoundThatHides(t *testing.T) {
	text := header + "allreduce,0,4294967295,ring,simple,8,2,8,,\nallreduce,1M,inf,tree,,,2,8,,\n"
	fixed, after, err := Fix("p.csv", []byte(text), Options{})
	if err != nil || len(fixed) > 0 || string(after) != text {
		t.Errorf("%v, %v: %s", err, fixed, after)
	}
}

// Fixes of random files change decisions only above the bounds that they move.
func TestFixKeepsDecisions(t *testing.T) {
	moved := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		either := func(values ...string) string { return values[rng.IntN(len(values))] }
		text := header
		for range 1 + rng.IntN(8) {
			text += strings.Join([]string{"allreduce", either("0", "1M", "64K"),
				either("4294967295", "4G", "inf", "2147483647", "64M"),
				either("ring", "nvls", "tree", "-1", "collnet_direct"), either("simple", "-1"),
				either("8", "96", "-1"), either("1", "2", "-1"), "8", either("100", "64K", ""), ""}, ",") + "\n"
		}
		_, after, err := Fix("p.csv", []byte(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkFixed(t, after)
		old, err1 := policy.ReadCSV("old.csv", []byte(text))
		new, err2 := policy.ReadCSV("new.csv", after)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for range 200 {
			nodes := 1 + rng.IntN(3)
			micros := make([]float32, 21)
			can := offered(nccl.CollAllReduce,
				keyOf(model.Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: nodes, Ranks: 8 * nodes}}))
			for i := range micros {
				micros[i] = -1
				if can&(1<<i) != 0 {
					micros[i] = float32(rng.IntN(60) - 20)
				}
			}
			micros[5] = 17.5 // ring/simple is always there
			q := policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: rng.Uint64N(6 << 30)}, PipeOps: 1,
				Costs: nccl.Costs{Micros: micros, NumProto: 3}}
			comm := policy.Comm{Comm: nccl.Comm{Nodes: nodes, Ranks: 8 * nodes}}
			was, is := old.For(comm).Decide(q), new.For(comm).Decide(q)
			was.Rule, is.Rule = 0, 0
			if was != is {
				if q.Bytes < 1<<31-1 {
					t.Fatalf("seed %d: %d bytes on %d nodes: %+v became %+v\n%s\n%s", seed, q.Bytes, nodes, was, is,
						text, after)
				}
				moved++
			}
		}
	}
	if moved == 0 {
		t.Error("no decision changed above a bound: the test is too weak")
	}
}

// The rows of real files are found where they are.
func TestSheetOfRealFile(t *testing.T) {
	const file = "../../../shared/data/policies/amd_xai_gfx950_tuner.conf"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Skipf("SKIPPED, the reference data is not there: %v", err)
	}
	fixed, after, err := Fix(file, text, Options{})
	if err != nil || len(fixed) != 1 {
		t.Fatalf("%v, %v", err, fixed)
	}
	if want := strings.Replace(string(text), "9437184,9437184,ring,simple,96,1,8",
		"9437184,9437184,ring,simple,64,1,8", 1); string(after) != want {
		t.Error("more changed than one field")
	}
}

// Whatever the file, a fix ends in one that is a policy and has nothing left to fix.
func FuzzFix(f *testing.F) {
	for _, file := range []string{"../../configs/policies/example.csv", "../../configs/policies/headerless.csv"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(header + "allreduce,0,4G,ring,simple,96,2,8,\"100\",\"a\nb\"\r\n# tunefit:ignore gap\n" +
		"allreduce,0,4G,ring,simple,96,2,8,\"100\"\n"))
	f.Add([]byte("collective,algorithm,min_bytes_per_rank,max_bytes,ranks\nany,!ring,1K,2147483647,3\n" +
		"*,ring,0,4294967295,-1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := policy.ReadCSV("fuzz.csv", text); err != nil {
			return
		}
		_, after, err := Fix("fuzz.csv", text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policy.ReadCSV("fuzz.csv", after); err != nil {
			t.Fatalf("%q became %q: %v", text, after, err)
		}
		checkFixed(t, after)
	})
}
