package ask

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/host"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// anyRows writes a policy of a few rows that overlap much.
func anyRows(t *rapid.T) string {
	of := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
	var b strings.Builder
	b.WriteString(
		"collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,reg_buff,chunk_bytes,max_bytes_per_rank,nccl,when\n")
	for range rapid.IntRange(1, 8).Draw(t, "rows") {
		algo := of("algo", "tree", "ring", "nvls", "nvls_tree", "collnet_direct", "pat", "!ring", "!tree",
			"-1", "default")
		asks := []string{algo, "", ""}
		chunk := ""
		if algo != "default" {
			asks = []string{algo, of("proto", "ll", "ll128", "simple", "!ll", "-1"),
				of("channels", "", "1", "7", "64", "127")}
			chunk = of("chunk", "", "", "1", "1920", "256K", "8G")
		}
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s\n", of("coll", "allreduce", "allgather", "-1"),
			of("min", "", "", "1K", "4K"), of("max", "", "8K", "8M", "inf"),
			strings.Join(asks, ","), of("nodes", "", "", "", "1", "2"), of("ranks", "", "", "", "8", "16"),
			of("pipe_ops", "", "", "", "2"), of("reg_buff", "", "", "", "1"),
			chunk, of("per rank", "", "", "", "64K"), of("nccl", "", "", "", ">=2.30", "2.21-2.28", "2.31.2"), of("when", "", "", "", "", "", "bytes > 64*KiB",
				"nodes == 2 || pipe_ops > 1", "nccl < '2.30'", "comm_name == 'dp'", "nvl_domains == 2", "coll == 'allreduce'", "topo.nvswitch",
				"bytes % (pipe_ops - 1) == 0"))
	}
	return b.String()
}

// anyCall draws a call of which the table may hold what no NCCL sends.
func anyCall(t *rapid.T) host.Call {
	c := host.Call{
		Coll: rapid.IntRange(0, nccl.NumColls-1).Draw(t, "coll"), PipeOps: rapid.IntRange(1, 3).Draw(t, "pipe ops"),
		RegBuff: rapid.IntRange(0, 1).Draw(t, "registered"),
		Bytes: rapid.OneOf(rapid.SampledFrom([]int64{1, 1023, 1024, 4096, 5000, 32 << 10, 1 << 20, 1<<20 + 1,
			8 << 20}), rapid.Int64Range(1<<10, 1<<23), rapid.Int64Range(1, 1<<40)).Draw(t, "bytes"),
		Table: make([]float32, rapid.SampledFrom([]int{18, 21}).Draw(t, "cells")), NumProto: nccl.NumProtos,
	}
	if rapid.IntRange(0, 2).Draw(t, "collective of a model") > 0 {
		c.Coll = int(nccl.CollAllReduce)
	}
	kinds := rapid.IntRange(1, 6).Draw(t, "kinds") // 1: nothing is available
	few := rapid.Bool().Draw(t, "tree and ring only")
	for i := range c.Table {
		if few && i/c.NumProto > int(nccl.AlgoRing) {
			c.Table[i] = -1
			continue
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			c.Table[i] = -1
		case 5:
			c.Table[i] = rapid.SampledFrom([]float32{0, 1, 1, math.MaxFloat32, math.SmallestNonzeroFloat32,
				float32(math.Inf(1)), float32(math.NaN())}).Draw(t, "odd")
		default:
			c.Table[i] = rapid.Float32Range(1, 2000).Draw(t, "micros")
		}
	}
	return c
}

// releases have each version of the ABI.
var releases = append(slices.Clip(nccl.KnownVersions), 23206)

// communicators are of several shapes.
var communicators = []nccl.Comm{{Nodes: 1, Ranks: 8}, {Nodes: 2, Ranks: 16}, {Nodes: 2, Ranks: 9}, {Nodes: 3, Ranks: 8}}

// anyComm has as many NVLink domains as NCCL may ever say, if it says any.
func anyComm(t *rapid.T, a *Asker, of []nccl.Comm) policy.Comm {
	comm := a.Comm(rapid.SampledFrom(of).Draw(t, "comm"))
	if a.ABI >= nccl.ABIComms {
		comm.NVLDomains = rapid.IntRange(0, comm.Nodes).Draw(t, "NVLink domains")
	}
	return comm
}

// libraries is the built library, loaded as NCCL loads it that has each version of the ABI.
func libraries(t *testing.T) map[int]*host.Plugin {
	t.Helper()
	plugins := map[int]*host.Plugin{}
	for _, release := range releases {
		abi := release.ABI(nil)
		if plugins[abi] != nil {
			continue
		}
		plugin, err := host.Load(testlib.Library, abi)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { plugin.Close() })
		plugins[abi] = plugin
	}
	return plugins
}

// decideBy has communicators that are opened from now on decide by files.
func decideBy(plugin *host.Plugin, d Decider) (err error) {
	for name, value := range map[string]string{
		tuner.EnvStrict: "1", tuner.EnvReload: "new", tuner.EnvLog: "decisions",
		tuner.EnvConfigFile: d.Policy, tuner.EnvModelFile: d.Model,
	} {
		err = errors.Join(err, plugin.Setenv(name, value))
	}
	return err
}

// What Ask says becomes of calls on an HGX H100 is what NCCL makes of the built library's answers to its tables.
func TestAnswersAreTheLibrarys(t *testing.T) {
	testlib.NeedPlugin(t)
	modelFile, rowsFile, plugins := learnedModel(t), filepath.Join(t.TempDir(), "rows.csv"), libraries(t)
	written := 0
	rapid.Check(t, func(t *rapid.T) {
		release := rapid.SampledFrom(releases).Draw(t, "release")
		d := Decider{Policy: rowsFile, Model: rapid.SampledFrom([]string{"", modelFile}).Draw(t, "model")}
		text := anyRows(t)
		if err := os.WriteFile(rowsFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		a, err := NewAsker(Flags{Env: testkit.Env, NCCL: release.String()}, d)
		if err != nil {
			t.Fatal(err)
		}
		s := anyComm(t, a, communicators[:2])
		outcomes, calls := make([]Outcome, 12), make([]host.Call, 12)
		for i := range outcomes {
			q := Question{
				Call: nccl.Call{Coll: nccl.Coll(rapid.IntRange(0, nccl.NumColls-1).Draw(t, "coll")),
					Bytes: rapid.Uint64Range(1, 1<<32).Draw(t, "bytes")}, Comm: s,
				PipeOps: rapid.IntRange(1, 3).Draw(t, "pipe ops"), RegBuff: rapid.IntRange(0, 1).Draw(t, "registered"),
			}
			answers, err := a.Ask(d, q, q.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			outcomes[i] = answers[0]
			calls[i] = host.Call{Coll: int(q.Coll), Bytes: int64(q.Bytes), PipeOps: q.PipeOps, RegBuff: q.RegBuff,
				Table: outcomes[i].table, NumProto: nccl.NumProtos}
		}
		if err := decideBy(plugins[a.ABI], d); err != nil {
			t.Fatal(err)
		}
		info := host.CommInfo{Comm: s.Comm, NVLDomains: s.NVLDomains, NCCL: release}
		comm, log, err := plugins[a.ABI].Open(info)
		if err != nil {
			t.Fatalf("%v: %v", err, log)
		}
		answers, err := comm.Ask(calls)
		if err != nil {
			t.Fatal(err)
		}
		tuning, err := a.Costs.Of(s.Comm)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range outcomes {
			chosen := choose(tuning, answers[i].Table, o.Bytes).Cell
			if chosen != o.Policy.Cell || answers[i].Channels != o.Policy.Channels+o.NotRaised ||
				answers[i].ChunkBytes != o.Chunk {
				t.Fatalf("NCCL %s, %+v: %v with %d channels and chunks of %d by the library, and said is %+v, by\n%s",
					release, o.Question, chosen, answers[i].Channels, answers[i].ChunkBytes, o, text)
			}
			if chosen != o.NCCL.Cell {
				written++
			}
		}
	})
	if written == 0 && !testing.Short() { // by chance, few draws may have none
		t.Error("nothing was decided otherwise than by NCCL: the test is too weak")
	}
}

// The built library decides what the engine decides that tunefit explains, by the row or the model and for the reason
// that it explains, for any rows, with and without a model, for any table, for every release; when it is asked again;
// and in any order. It writes nothing but one available cell, which wins then.
func TestLibraryAgreesWithEngine(t *testing.T) {
	testlib.NeedPlugin(t)
	modelFile, rowsFile := learnedModel(t), filepath.Join(t.TempDir(), "rows.csv")
	plugins := libraries(t)
	by := map[policy.By]int{}
	rapid.Check(t, func(t *rapid.T) {
		release := rapid.SampledFrom(append(slices.Clip(releases), nccl.Reference, nccl.Reference)).Draw(t, "release")
		abi := release.ABI(nil)
		plugin := plugins[abi]
		text := anyRows(t)
		d := rapid.SampledFrom([]Decider{{Policy: rowsFile}, {Policy: rowsFile, Model: modelFile}, {Model: modelFile}}).
			Draw(t, "files")
		if err := errors.Join(os.WriteFile(rowsFile, []byte(text), 0o644), decideBy(plugin, d)); err != nil {
			t.Fatal(err)
		}
		a, err := NewAsker(Flags{Env: testkit.Env, NCCL: release.String()}, d)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		engine := a.engines[d]
		s := anyComm(t, a, communicators)
		calls := make([]host.Call, 12)
		for i := range calls {
			calls[i] = anyCall(t)
		}
		ask := func(calls []host.Call) []host.Answer {
			comm, log, err := plugin.Open(host.CommInfo{Comm: s.Comm, NVLDomains: s.NVLDomains,
				NCCL: release})
			if err != nil {
				t.Fatalf("%v: %v", err, log)
			}
			answers, err := comm.Ask(append(slices.Clone(calls), calls...))
			if err != nil {
				t.Fatal(err)
			}
			for i := range calls {
				if !sameAnswer(answers[i], answers[len(calls)+i]) {
					t.Fatalf("%+v, then %+v to %+v by\n%s", answers[i], answers[len(calls)+i], calls[i], text)
				}
			}
			return answers[:len(calls)]
		}
		answers := ask(calls)
		slices.Reverse(calls)
		backwards := ask(calls)
		slices.Reverse(calls)
		slices.Reverse(backwards)
		for i, c := range calls {
			if !sameAnswer(answers[i], backwards[i]) {
				t.Fatalf("%+v, in another order %+v to %+v by\n%s", answers[i], backwards[i], c, text)
			}
			q := Question{Call: nccl.Call{Coll: nccl.Coll(c.Coll), Bytes: uint64(c.Bytes)}, Comm: s,
				PipeOps: c.PipeOps, RegBuff: c.RegBuff}
			view, query := engine.For(s), q.query(c.Table, abi)
			x := view.Explain(query)
			by[x.By]++
			var want host.Answer
			want.Table, want.Channels, want.ChunkBytes = throughABI(x.Decision, c.Table, abi)
			if !sameAnswer(answers[i], want) {
				t.Fatalf("NCCL %s: %+v on %s:\nthe library says %+v\nthe engine %+v\nby\n%s", release, c, s,
					answers[i], want, text)
			}
			if log := answers[i].Log; len(log) > 0 { // it is new
				who := map[policy.By]string{policy.ByNCCL: "NCCL", policy.ByModel: "model " + modelFile}[x.By]
				if x.By == policy.ByRow {
					who = fmt.Sprintf("%s:%d", rowsFile, engine.Policy.Rules[x.Rule].Line)
				}
				said, err := record.ReadEvent([]byte(log[len(log)-1].Text))
				if d, is := said.(*record.Decision); err != nil || !is || d.Call != query.Call || d.Config != x.Config ||
					d.By != who {
					t.Fatalf("NCCL %s: %+v on %s:\nthe library logs %q, not %s by %s, by\n%s", release, c, s,
						log[len(log)-1].Text, x.Config, who, text)
				}
			}
			for r, tried := range x.Rows {
				if (tried.Status == policy.RowDecides) != (r == x.Rule) {
					t.Fatalf("row %d decides, and of row %d is said: %s", x.Rule, r, tried.Status)
				}
			}
			if broken := breaks(c, answers[i], s); broken != "" && abi != nccl.ABINoCosts {
				t.Fatalf("%s: %+v to %+v on %s by\n%s", broken, answers[i], c, s, text)
			}
		}
	})
	if testing.Short() { // few are tried then, and chance may keep the model out of all of them
		return
	}
	if by[policy.ByNCCL] == 0 || by[policy.ByRow] == 0 || by[policy.ByModel] == 0 {
		t.Errorf("decided by %v: the test is too weak", by)
	}
}

// sameAnswer compares bit by bit, but for the kind of NaN.
func sameAnswer(a, b host.Answer) bool {
	same := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y }
	return a.Channels == b.Channels && a.ChunkBytes == b.ChunkBytes && slices.EqualFunc(a.Table, b.Table, same)
}

// breaks names what no answer may do, whoever decided; "" for none of it.
func breaks(c host.Call, a host.Answer, s policy.Comm) string {
	offered := func(micros float32) bool { return micros >= 0 && micros < math.MaxFloat32 }
	written, choice := -1, -1
	for i, after := range a.Table {
		if before := c.Table[i]; math.Float32bits(before) != math.Float32bits(after) &&
			!(before != before && after != after) {
			if written >= 0 || !offered(before) || !(after > 0 && after <= before) {
				return "a cell that is not NCCL's to choose, made dearer, or a second one"
			}
			written = i
		}
		if offered(after) && (choice < 0 || after < a.Table[choice]) {
			choice = i
		}
	}
	if choice < 0 {
		if a.Channels != 0 || a.ChunkBytes != 0 {
			return "an answer where there is nothing to choose from"
		}
		return ""
	}
	algo, proto := nccl.Algo(choice/c.NumProto), nccl.Proto(choice%c.NumProto)
	for i, after := range a.Table {
		if written >= 0 && i != choice && after == a.Table[choice] {
			return "a tie"
		}
	}
	unchecked := algo == nccl.AlgoCollNetDirect || algo == nccl.AlgoCollNetChain || algo == nccl.AlgoNVLS && s.Nodes > 1
	switch {
	case written >= 0 && written != choice:
		return "the cell written is not chosen"
	case a.Channels < 0 || a.Channels > 64 || a.Channels > 0 && unchecked:
		return "channels"
	case a.ChunkBytes > 0 && uint64(a.ChunkBytes) < proto.Grain():
		return "a chunk below the grain"
	}
	return ""
}

// learnedModel is a model of the small sweep, which knows what NCCL does by itself.
func learnedModel(t *testing.T) string {
	t.Helper()
	const name = "policy/fit/testdata/small.csv"
	sweep, err := os.Open(filepath.Join(testlib.Root, name))
	if err != nil {
		t.Fatal(err)
	}
	defer sweep.Close()
	pool := fit.NewPool()
	pool.Begin(name)
	measured, err := bench.Read(sweep, name, bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range measured.Samples {
		pool.Add(&measured.Samples[i])
	}
	file, _ := fit.Fit(pool.Set(), fit.Options{})
	var model bytes.Buffer
	if err := fit.WriteModel(&model, file); err != nil {
		t.Fatal(err)
	}
	return testlib.File(t, "model.json", model.String())
}
