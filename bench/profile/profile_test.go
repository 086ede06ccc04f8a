package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// job reads the files of the made-up job: 2 nodes of 2 GPUs, 2 steps.
func job(t *testing.T, steps int, patterns ...string) *Profile {
	t.Helper()
	j := NewJob()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, file := range files {
			in, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			read := j.Inspector
			if filepath.Ext(file) == ".log" {
				read = j.Log
			}
			if err := read(filepath.Base(file), in); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, err := j.Profile(steps)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The inspector tells counts and times, the library who decided; what was made up is found again, the waiting of early
// ranks, 80 us on average, is not.
func TestJob(t *testing.T) {
	p := job(t, 2, "inspector-*.json", "decisions.log")
	const mib = 1 << 20
	want := []struct {
		coll   nccl.Coll
		bytes  uint64
		calls  float64
		micros float64
		by     string
	}{
		{nccl.CollReduceScatter, 12 * mib, 3, 640, ""},
		{nccl.CollAllGather, 12 * mib, 3, 590, "policy.csv:2"},
		{nccl.CollAllGather, 8 * mib, 3, 410, "policy.csv:2"},
		{nccl.CollAllReduce, 64 << 10, 1, 55, "NCCL"},
		{nccl.CollAllReduce, 8, 0, 0, "NCCL"},
	}
	if len(p.Entries) != len(want) {
		t.Fatalf("%d entries: %+v", len(p.Entries), p.Entries)
	}
	for i, w := range want {
		e := p.Entries[i]
		if e.Coll != w.coll || e.Comm != (nccl.Comm{Nodes: 2, Ranks: 4}) || e.Bytes != w.bytes ||
			e.StepCalls != w.calls || e.DecidedBy != w.by || e.Micros < 0.97*w.micros || e.Micros > 1.03*w.micros {
			t.Errorf("entry %d is %+v, want %+v", i, e, w)
		}
	}
	if len(p.Notes) > 0 {
		t.Errorf("notes on a complete recording: %q", p.Notes)
	}
	if s := p.Scale(); s != (Scale{PerStep: true, Weight: ByTime}) {
		t.Errorf("scale %+v", s)
	}
	if g := p.SizeBins(); len(g) != 4 || g[0].Coll != nccl.CollAllGather || len(g[0].Entries) != 2 {
		t.Errorf("bins %+v", g)
	}
}

// What a source cannot tell stays empty: no time without all ranks, no counts from a log, no steps that nobody named.
func TestUnknownStaysEmpty(t *testing.T) {
	p := job(t, 0, "inspector-node0-*.json")
	for _, e := range p.Entries {
		if e.Micros != 0 || e.StepCalls != 0 || e.Calls == 0 || e.DecidedBy != "" {
			t.Errorf("half of the ranks: %+v", e)
		}
	}
	if len(p.Notes) != 1 ||
		!strings.Contains(p.Notes[0],
			"20 of 20 calls have no time: not all ranks of the communicator recorded them, with the GPU's time of the "+
				"kernel (needed: the files of all ranks)") {
		t.Errorf("notes %q", p.Notes)
	}
	if s := p.Scale(); s != (Scale{PerStep: false, Weight: ByBytes}) {
		t.Errorf("scale %+v", s)
	}
	p = job(t, 0, "decisions.log")
	for _, e := range p.Entries {
		if e.Calls != 0 || e.Micros != 0 || e.DecidedBy == "" {
			t.Errorf("a log: %+v", e)
		}
	}
	if len(p.Entries) != 4 || p.Scale() != (Scale{}) || p.Total() != 0 {
		t.Errorf("a log: %+v", p)
	}
}

// Shares are of the time where nearly all calls have one, and nearly all bytes; else of the bytes.
func TestWeight(t *testing.T) {
	for _, c := range []struct {
		untimed float64 // calls
		bytes   uint64
		want    Weight
	}{{0, 0, ByTime}, {50, 1000, ByTime}, {100, 1, ByBytes}, {1, 100_000, ByBytes}} {
		p := Profile{Entries: []Entry{{CallKind: CallKind{Call: nccl.Call{Bytes: 1000}}, Calls: 1000, Micros: 10},
			{CallKind: CallKind{Call: nccl.Call{Bytes: c.bytes}}, Calls: c.untimed}}}
		if got := p.Scale().Weight; got != c.want {
			t.Errorf("beside 1000 calls of 1000 bytes %v of %d have no time: weighed by %v, want %v", c.untimed,
				c.bytes, got, c.want)
		}
	}
}

// record is one of the inspector's, made up.
func recordText(version, id string, rank, ranks int, perf string) string {
	return fmt.Sprintf(
		`{"header":{"id":%q,"rank":%d,"n_ranks":%d,"nnodes":1},"metadata":{"inspector_output_format_version":%q,"hostname":"h","pid":%d},%s}`+"\n", id, rank, ranks, version, 100+rank, perf)
}

func collText(coll string, sn, bytes, us int, source, more string) string {
	return fmt.Sprintf(
		`"coll_perf":{"coll":%q,"coll_sn":%d,"coll_msg_size_bytes":%d,"coll_exec_time_us":%d,"coll_timing_source":%q%s}`, coll, sn, bytes, us, source, more)
}

func TestInspectorVersions(t *testing.T) {
	var text strings.Builder
	for rank := range 2 {
		// v4.0, without algorithm. Sequence numbers 1 to 3 of the AllReduce, but 2 was lost.
		text.WriteString(recordText("v4.0", "0xa", rank, 2, collText("AllReduce", 1, 4096, 10+rank, "kernel_gpu", "")))
		text.WriteString(recordText("v4.0", "0xa", rank, 2, collText("AllReduce", 3, 4096, 20-rank, "kernel_gpu", "")))
		// The host's clock is no time of the collective.
		text.WriteString(recordText("v4.0", "0xa", rank, 2, collText("Reduce", 1, 4096, 7, "kernel_cpu", "")))
		// An AllGather counts one rank's share.
		text.WriteString(recordText("v4.2", "0xa", rank, 2, collText("AllGather", 1, 4096, 9, "kernel_gpu",
			`,"coll_algo":"NVLS","coll_proto":"SIMPLE"`)))
		text.WriteString(recordText("v4.3", "0xa", rank, 2, collText("AllGather", 2, 4096, 9, "kernel_gpu",
			`,"coll_algo":"unknown","coll_proto":"unknown"`)))
		// What is no collective, or none that tuners are asked about.
		text.WriteString(recordText("v4.1", "0xa", rank, 2, `"dump_stats":{"coll_records":1}`))
		text.WriteString(recordText("v4.3", "0xa", rank, 2, `"proxy_trace":{"record_type":"proxy_op"}`))
		text.WriteString(recordText("v4.0", "0xa", rank, 2, `"p2p_perf":{"p2p":"Send","p2p_sn":1}`))
		text.WriteString(recordText("v4.0", "0xb", 0, 1, collText("AllReduce", 1, 4096, 10, "kernel_gpu", "")))
	}
	j := NewJob()
	if err := j.Inspector("x", strings.NewReader(text.String()+`{"header":{"id"`)); err != nil {
		t.Fatal(err)
	}
	p, err := j.Profile(0)
	if err != nil {
		t.Fatal(err)
	}
	one := nccl.Comm{Nodes: 1, Ranks: 2}
	got := map[CallKind]Entry{}
	for _, e := range p.Entries {
		got[e.CallKind] = e
	}
	for _, want := range []Entry{
		{CallKind: CallKind{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 4096}, Comm: one, Cell: nccl.NoCell}, Calls: 2,
			Micros: (10 + 19) / 2.0},
		{CallKind: CallKind{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 0}, Comm: one, Cell: nccl.NoCell}, Calls: 1},
		{CallKind: CallKind{Call: nccl.Call{Coll: nccl.CollReduce, Bytes: 4096}, Comm: one, Cell: nccl.NoCell}, Calls: 1},
		{CallKind: CallKind{Call: nccl.Call{Coll: nccl.CollAllGather, Bytes: 8192}, Comm: one,
			Cell: nccl.Cell{Algo: nccl.AlgoNVLS, Proto: nccl.ProtoSimple}}, Calls: 1, Micros: 9},
		{CallKind: CallKind{Call: nccl.Call{Coll: nccl.CollAllGather, Bytes: 8192}, Comm: one, Cell: nccl.NoCell},
			Calls: 1, Micros: 9},
	} {
		if got[want.CallKind] != want {
			t.Errorf("got %+v, want %+v", got[want.CallKind], want)
		}
		delete(got, want.CallKind)
	}
	if len(got) > 0 {
		t.Errorf("besides %+v", got)
	}
	for i, want := range []string{"2 of 12 calls were not recorded",
		"1 of 5 calls have no time: not all ranks", "2 records of Send",
		"2 records of collectives of a single rank", "x: record 19, the last one, is not complete"} {
		if i >= len(p.Notes) || !strings.Contains(p.Notes[i], want) {
			t.Errorf("note %d is not %q: %q", i, want, p.Notes)
		}
	}
}

func TestInspectorErrors(t *testing.T) {
	good := recordText("v4.0", "0xa", 0, 2, collText("AllReduce", 1, 4096, 10, "kernel_gpu", ""))
	for text, want := range map[string]string{
		good + "oops\n":                "x: record 2: not JSON: invalid character 'o'",
		good + "{\n  \"header\": 3}\n": "x: record 2: header: number where a JSON object is needed",
		good + "{}\n":                  "x: record 2: no header or no metadata",
		recordText("v5.0", "0xa", 0, 2,
			collText("AllReduce", 1, 1, 1, "",
				"")): `x: record 1: inspector_output_format_version is "v5.0" (known: v4.0, v4.1, v4.2, v4.3)`,
		recordText("v4.0", "0xa", 2, 2, collText("AllReduce", 1, 1, 1, "", "")): "x: record 1: rank is 2 (allowed: " +
			"0 to 1, as n_ranks is 2)",
		recordText("v4.0", "0xa", 0, 0, collText("AllReduce", 1, 1, 1, "", "")): "x: record 1: n_ranks is 0",
		recordText("v4.0", "", 0, 2, collText("AllReduce", 1, 1, 1, "", "")):    "x: record 1: header.id is empty",
		recordText("v4.0", "0xa", 0, 2,
			collText("AllRedux", 1, 1, 1, "", "")): `x: record 1: coll: unknown collective "AllRedux" (did you mean`,
		recordText("v4.0", "0xa", 0, 2, collText("AllReduce", 1, 0, 1, "", "")): "x: record 1: coll_msg_size_bytes " +
			"is 0 (allowed: 1 to 1024T over all ranks)",
		recordText("v4.0", "0xa", 0, 2, collText("AllReduce", -1, 1, 1, "", "")): "coll_perf.coll_sn: number -1 " +
			"where a uint64 is needed",
		recordText("v4.0", "0xa", 0, 2, collText("AllReduce", 1, 1, -1, "", "")): "x: record 1: coll_exec_time_us is " +
			"-1 (allowed: 0 or more)",
	} {
		if err := NewJob().Inspector("x", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	twice := NewJob()
	if err := twice.Inspector("x", strings.NewReader(good+good)); err != nil {
		t.Fatal(err)
	}
	for coll, rank := range map[string]int{"AllGather": 1, "ReduceScatter": 0} { // the first of them is named
		other := recordText("v4.0", "0xa", rank, 2, collText(coll, 1, 1, 1, "", ""))
		if err := twice.Inspector("x", strings.NewReader(other+other)); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if _, err := twice.Profile(0); err == nil || !strings.Contains(err.Error(), "x: 2 records of allgather by rank 1") {
			t.Fatalf("the same twice: %v", err)
		}
	}
}

func TestDecisions(t *testing.T) {
	const start = "n0:1:2 [0] NCCL INFO TUNER/Go: 0.1.0 communicator of 8 ranks on 1 node (ABI v3): model m.json, " +
		"version 2bbe\n"
	const line = "n0:1:2 [0] NCCL INFO TUNER/Go: communicator 0x0: allreduce 8MiB, %d pipelined: %s, decided by " +
		"m.json\n"
	j := NewJob()
	log :=
		start +
			fmt.Sprintf(line, 1,
				"nvls_tree/simple 16 ch instead of ring/ll, 4 us expected, 3.0 % less than NCCL's (uncertain "+
					"by 1.0 %)") +
			fmt.Sprintf(line, 4, "ring/ll") + strings.Repeat("x", 100_000) + "\n" + fmt.Sprintf(line, 8, "tree/ll")
	log = strings.ReplaceAll(log, "nvls_tree", "nvlstree")
	if err := j.Log("job.log", strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	p, err := j.Profile(0)
	want := Entry{CallKind: CallKind{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 8 << 20},
		Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Cell: nccl.Cell{Algo: nccl.AlgoNVLSTree, Proto: nccl.ProtoSimple}},
		Channels: 16, DecidedBy: "m.json"}
	if err != nil || len(p.Entries) != 1 || p.Entries[0] != want {
		t.Errorf("%v: %+v, want %+v", err, p, want)
	}
	j = NewJob()
	now := "TUNER/Go: start library=0.3.0 comm=0x7 ranks=8 nodes=1 abi=6\n"
	for _, d := range []string{"choice=nvls_tree/simple channels=16 by=m.json pipe_ops=1", "choice=ring/ll by=m.json pipe_ops=4"} {
		now += "TUNER/Go: decision comm=0x7 coll=allreduce size=8MiB " + d + "\n"
	}
	if err := j.Log("job.log", strings.NewReader(now)); err != nil {
		t.Fatal(err)
	}
	if p, err := j.Profile(0); err != nil || len(p.Entries) != 1 || p.Entries[0] != want {
		t.Errorf("%v: %+v, want %+v", err, p, want)
	}
	// A line that names no communicator is of the only shape that there is.
	j = NewJob()
	if err := j.Log("job.log", strings.NewReader(strings.ReplaceAll(log, "communicator 0x0: ", ""))); err != nil {
		t.Fatal(err)
	}
	if p, err := j.Profile(0); err != nil || len(p.Entries) != 1 || p.Entries[0] != want {
		t.Errorf("no communicator named: %v: %+v, want %+v", err, p, want)
	}
	// Two shapes without identities: nobody knows which of them a decision is for.
	j = NewJob()
	if err := j.Log("job.log",
		strings.NewReader(log+strings.Replace(start, "8 ranks", "4 ranks", 1))); err != nil {
		t.Fatal(err)
	}
	if p, err := j.Profile(0); err != nil || len(p.Entries) != 0 ||
		!strings.Contains(strings.Join(p.Notes, " "), "3 decisions are left out") {
		t.Errorf("%v: %+v", err, p)
	}
	for text, want := range map[string]string{
		"epoch 1\n": "job.log: no decision of the library is in it, nor a line of NCCL's log (needed:",
		start + fmt.Sprintf(line, 1, "rign/ll"): "job.log:2: a line of the library that cannot be read: unknown " +
			"algorithm",
		start + fmt.Sprintf(line, 1, "ring/ll") +
			strings.Repeat("x", 2<<20): "job.log: bufio.Scanner: token too long",
		start + strings.Replace(fmt.Sprintf(line, 1, "ring/ll"), "8MiB", "8MB",
			1): `job.log:2: a line of the library that cannot be read: "8MB" is ambiguous`,
	} {
		if err := NewJob().Log("job.log", strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// What Write writes Read reads.
func TestRoundTrip(t *testing.T) {
	p := job(t, 2, "inspector-*.json", "decisions.log")
	p.Notes = []string{"a note"}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	again, err := Read("job.csv", out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Entries, p.Entries) || !strings.Contains(out.String(), "\n# a note\n") {
		t.Errorf("got %+v, want %+v\n%s", again.Entries, p.Entries, out.String())
	}
}

func TestReadErrors(t *testing.T) {
	const head = "# tunefit job profile 1\n# a comment\ncollective,nodes,ranks,bytes,calls,time_us,algorithm,protocol,channels\n"
	for text, want := range map[string]string{
		"collective,nodes,ranks\n":  `job.csv:1:1: the first line is "collective,nodes,ranks" (needed: "# tunefit job profile 1")`,
		"# tunefit job profile 2\n": `job.csv:1:23: version "2" of job profiles (known: 1)`,
		"# tunefit job profile 1\n": "job.csv:2:1: no header",
		head:                        "job.csv: no rows",
		"# tunefit job profile 1\ncollective,nodes,rank\n":  `job.csv:2:18: unknown column "rank" (did you mean "ranks"; allowed: `,
		"# tunefit job profile 1\ncollective,nodes\n":       "job.csv:2:1: no column ranks",
		"# tunefit job profile 1\nnodes,collective,nodes\n": "job.csv:2:18: column nodes is named twice",
		head +
			"allredux,1,8,1M,,,,,\n": `job.csv:4:1: collective: unknown collective "allredux" (did you mean`,
		head + "allreduce,0,8,1M,,,,,\n":  `job.csv:4:11: nodes: "0" (allowed: above 0, up to 16777216`,
		head + "allreduce,2,1,1M,,,,,\n":  `job.csv:4:13: ranks: "1" (allowed: 2 to`,
		head + "allreduce,1,8,1MB,,,,,\n": `job.csv:4:15: bytes: "1MB" is ambiguous`,
		head +
			"allreduce,1,8,0,,,,,\n": `job.csv:4:15: bytes: "0" (allowed: above 0, up to 1125899906842624, or nothing: not known)`,
		head + "allreduce,1,8,1M,-3,,,,\n": `job.csv:4:18: calls: "-3" (allowed: above 0`,
		head +
			"allreduce,1,8,1M,18446744073709551615,,,,\n": `job.csv:4:18: calls: "18446744073709551615" (allowed: above 0, up to 1e+15`,
		head +
			"allreduce,1,8,1M,,NaN,,,\n": `job.csv:4:19: time_us: "NaN" (allowed: above 0`,
		head +
			"allreduce,1,8,1M,,,rign,,\n": `job.csv:4:20: algorithm: unknown algorithm "rign" (did you mean "ring"`,
		head + "allreduce,1,8,1M,,,ring,lll,\n":  `job.csv:4:25: protocol: unknown protocol "lll"`,
		head + "allreduce,1,8,1M,,,ring,ll,65\n": `job.csv:4:28: channels: "65" (allowed: above 0, up to 64`,
		head + "allreduce,1,8\n":                 "job.csv:4:1: 3 fields (needed: 9, as in the header)",
		head + "allreduce,1,8,1M,,,,,\nallreduce,1,8,1M,,,,,\n": "job.csv:5:1: collective: the same collective, " +
			"communicator, size, algorithm and protocol as in line 4 (allowed: once)",
		head + "allreduce,1,8,\"1M,,,,,\n": "job.csv:4:",
	} {
		if _, err := Read("job.csv", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v\nwant %s", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("# tunefit job profile 1\ncollective,nodes,ranks,bytes,calls\nallreduce,1,8,1M,3\n"))
	f.Add([]byte("# tunefit job profile 1\n# x\nRanks, collective\n\"a\n\",1\nx\n\""))
	place := regexp.MustCompile(`^x(:[1-9][0-9]*:[1-9][0-9]*)?: `)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Read("x", text)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !place.MatchString(line) {
					t.Errorf("%q: the error names no place: %q", text, line)
				}
			}
			return
		}
		var out bytes.Buffer
		if err := p.Write(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := Read("x", out.Bytes()); err != nil {
			t.Fatalf("what was written is refused: %v\n%s", err, out.Bytes())
		}
	})
}

func BenchmarkWorstRead(b *testing.B) {
	const header = "# tunefit job profile 1\ncollective,nodes,ranks,bytes,calls,decided_by\n"
	hostile.Benchmark(b, func(text []byte) error {
		_, err := Read("x", text)
		return err
	},
		hostile.Text{Head: header, Unit: "allreduce,1,8,%d,1,\n"}, hostile.Text{Head: header, Unit: "x,1,8,%d,1,\n"},
		hostile.Text{Head: header, Unit: "x", Tail: ",1,8,1,1,\n"},
		hostile.Text{Head: header + "allreduce,1,8,", Unit: "1", Tail: "KB,1,\n"},
		hostile.Text{Head: "# tunefit job profile ", Unit: "1"},
	)
}

func FuzzInspector(f *testing.F) {
	f.Add(recordText("v4.0", "0xa", 0, 2, collText("AllReduce", 1, 4096, 10, "kernel_gpu", "")))
	f.Fuzz(func(t *testing.T, text string) {
		j := NewJob()
		if j.Inspector("x", strings.NewReader(text)) != nil {
			return
		}
		p, err := j.Profile(1)
		if err != nil || len(p.Entries) == 0 { // no profile is written then
			return
		}
		for _, e := range p.Entries {
			if !(e.Calls >= 0 && e.Micros >= 0) || math.IsInf(e.Calls+e.Micros, 0) || e.Ranks < 1 {
				t.Errorf("%+v", e)
			}
		}
		var out bytes.Buffer
		if err := p.Write(&out); err != nil {
			t.Fatal(err)
		}
		read, err := Read("x", out.Bytes())
		if err != nil || len(read.Entries) != len(p.Entries) {
			t.Fatalf("of %d entries comes %+v, %v\n%s", len(p.Entries), read, err, out.Bytes())
		}
	})
}

func benchmarkJob(b *testing.B, read func(j *Job, in io.Reader) error, more ...hostile.Text) {
	hostile.Benchmark(b, func(text []byte) error {
		j := NewJob()
		if err := read(j, bytes.NewReader(text)); err != nil {
			return err
		}
		p, err := j.Profile(1)
		if err != nil {
			return err
		}
		return errors.New(strings.Join(p.Notes, "\n")) // they are bounded, too
	}, more...)
}

func BenchmarkWorstInspector(b *testing.B) {
	record := func(id, host, more string) string {
		return `{"header":{"id":"` + id + `","rank":0,"n_ranks":2,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0",` +
			`"hostname":"` + host + `","pid":1},` + more + "}\n"
	}
	const coll = `"coll_perf":{"coll":"AllReduce","coll_sn":%d,"coll_msg_size_bytes":4096,"coll_exec_time_us":1}`
	benchmarkJob(b, func(j *Job, in io.Reader) error { return j.Inspector("x", in) },
		hostile.Text{Unit: record("c", "h", coll)}, hostile.Text{Unit: record("c%d", "h", coll)},
		hostile.Text{Unit: record("c", "h%d", coll)}, hostile.Text{Unit: record("c%d", "h%d", coll)},
		hostile.Text{Unit: record("c", "h", `"p2p_perf":{"p2p":"x%d"}`)},
		hostile.Text{Head: strings.TrimSuffix(record("c", "h", `"p2p_perf":{"p2p":"`), "}\n"), Unit: "x", Tail: `"}}`},
		hostile.Text{Head: `{"header":{"rank":`, Unit: "1", Tail: "}}"},
	)
}

func BenchmarkWorstRecorder(b *testing.B) {
	const comms = record.Head + `1,"communicators":[`
	benchmarkJob(b, func(j *Job, in io.Reader) error { return j.Recorder("x", in) },
		hostile.Text{Head: comms, Unit: `{"id":"x%d","ranks":2,"nodes":1},`, Tail: `{"id":"x","ranks":2,"nodes":1}]}`},
		hostile.Text{Head: comms + `{"id":"x","ranks":2,"nodes":1,"calls":[`, Unit: `{"bytes":1%d,"calls":1},`,
			Tail: `{"bytes":1}]}]}`},
	)
}

func BenchmarkWorstDecisions(b *testing.B) {
	const comm = "TUNER/Go: start library=1 comm=0x%d ranks=8 nodes=1\n"
	benchmarkJob(b, func(j *Job, in io.Reader) error { return j.Log("x", in) },
		hostile.Text{Unit: "TUNER/Go: communicator "}, hostile.Text{Head: `TUNER/Go: communicator "`, Unit: `\"`},
		hostile.Text{Unit: comm + "TUNER/Go: decision comm=0x%d coll=allreduce size=%d by=x pipe_ops=1\n"},
		hostile.Text{Unit: "TUNER/Go: allreduce 1, 1 pipelined: ring/ll 2 ch, decided by x\n"},
	)
}

func TestDuration(t *testing.T) {
	for us, want := range map[float64]string{
		0: "0 us", 12.345: "12.35 us", 999: "999 us", 1000: "1 ms", 12345: "12.35 ms", 999000: "999 ms", 1e6: "1 s",
		123456789: "123.46 s",
	} {
		if got := Duration(us); got != want {
			t.Errorf("%g: %s, want %s", us, got, want)
		}
	}
}

// Since v4.3 only the record before the calls of a communicator says whose they are.
func TestInspectorHeaderBeforeCalls(t *testing.T) {
	call := func(sn int) string { return "{" + collText("AllReduce", sn, 4096, 10, "kernel_gpu", "") + "}\n" }
	const stats = `"dump_stats":{"coll_records":1}`
	j := NewJob()
	for rank := range 2 {
		text := recordText("v4.3", "0xa", rank, 2, stats) + call(1) + call(2) + recordText("v4.3", "0xb", rank, 4, stats) + call(1)
		if err := j.Inspector("x", strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := j.Profile(0)
	if err != nil || len(p.Entries) != 2 {
		t.Fatalf("%v %+v", err, p)
	}
	for _, e := range p.Entries {
		if want := map[int]float64{2: 2, 4: 1}[e.Ranks]; e.Calls != want {
			t.Errorf("%+v, want %v calls", e, want)
		}
	}
	for _, text := range []string{call(1), recordText("v4.2", "0xa", 0, 2, stats) + call(1)} {
		if err := NewJob().Inspector("x", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "no header") {
			t.Errorf("%v of %s", err, text)
		}
	}
}
