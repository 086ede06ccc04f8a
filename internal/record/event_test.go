package record

import (
	"reflect"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

var (
	ring = nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}
	tree = nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoSimple}
	mib  = nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1 << 20}
	none = nccl.Config{Cell: nccl.NoCell}
)

// events are those that there are, with the lines that stand for them.
var events = []struct {
	line  string
	event Event
}{
	{`start library=0.3.0 comm=0x6f3a name="dp 0" ranks=16 nodes=2 nccl=2.30.7 abi=6 policy="my policy.csv" rows=12 ` +
		`version=9f2c01d4a7be`,
		&Start{Library: "0.3.0", ID: "0x6f3a", Name: "dp 0", Comm: nccl.Comm{Nodes: 2, Ranks: 16}, NCCL: "2.30.7", ABI: 6,
			Policy: "my policy.csv", Rows: 12, Version: "9f2c01d4a7be"}},
	{`start library=0.3.0 ranks=1 nodes=1 abi=3 nccl_decides="no policy"`,
		&Start{Library: "0.3.0", Comm: nccl.Comm{Nodes: 1, Ranks: 1}, ABI: 3, Because: "no policy"}},
	{`decision coll=allreduce size=1MiB choice=ring/ll channels=8 chunk=64KiB default=tree/simple by="a \"b\".csv:3" ` +
		`pipe_ops=0`,
		&Decision{Call: mib, Asks: none, Config: nccl.Config{Cell: ring, Channels: 8}, ChunkBytes: 64 << 10, Default: tree,
			By: `a "b".csv:3`}},
	{`decision comm=0x1 coll=allreduce size=1MiB channels=8 by=x=y.csv:1 pipe_ops=1 because="4 us expected"`,
		&Decision{ID: "0x1", Call: mib, Asks: none, PipeOps: 1, Config: nccl.Config{Cell: nccl.NoCell, Channels: 8}, Default: nccl.NoCell,
			By: "x=y.csv:1", Because: "4 us expected"}},
	{`start library=0.3.0 ranks=8 nodes=1 policy=/dir/passes passes=40 version=9f2c01d4a7be`,
		&Start{Library: "0.3.0", Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Policy: "/dir/passes", Passes: 40, Version: "9f2c01d4a7be"}},
	{`pass comm=0x1 n=3 of=40 policy=a.csv version=9f2c01d4a7be`,
		&Pass{ID: "0x1", N: 3, Of: 40, Policy: "a.csv", Version: "9f2c01d4a7be"}},
	{`decision pass=3 coll=allreduce size=1MiB asks=ring/ll/8 available=no choice=tree/simple by=NCCL pipe_ops=1`,
		&Decision{Pass: 3, Call: mib, Asks: nccl.Config{Cell: ring, Channels: 8}, PipeOps: 1,
			Config: nccl.Config{Cell: tree}, Default: nccl.NoCell, By: ByNCCL}},
	{`decision pass=3 coll=allreduce size=1MiB asks=ring/ll available=yes choice=ring/ll by=a.csv:1 pipe_ops=0`,
		&Decision{Pass: 3, Call: mib, Asks: nccl.Config{Cell: ring}, Available: true, Config: nccl.Config{Cell: ring},
			Default: nccl.NoCell, By: "a.csv:1"}},
	{`available comm=0x1 coll=allreduce cells="ring/ll tree/simple"`,
		&Available{ID: "0x1", Coll: nccl.CollAllReduce, Cells: []nccl.Cell{ring, tree}}},
	{`sum comm=0x1 by="model m.json" decisions=4`, &Sum{ID: "0x1", By: "model m.json", Decisions: 4}},
	{`no_effect comm=0x1 why=release is="1 row is for other releases"`,
		&NoEffect{ID: "0x1", Why: NoEffectRelease, Is: "1 row is for other releases"}},
}

// Each event is written as a line, and the line, whatever stands before it, is read as the event.
func TestEvents(t *testing.T) {
	for _, c := range events {
		if got := Line(c.event); got != Prefix+c.line {
			t.Errorf("written\n%s, want\n%s", got, c.line)
		}
		for _, text := range []string{Prefix + c.line, "[1,0]<stdout>:n1:7:9 [0] NCCL INFO " + Prefix + c.line + "\r\n",
			Prefix + strings.Replace(c.line, " ", ` later=1 much="more \"x\"" `, 1)} {
			if got, err := ReadEvent([]byte(text)); err != nil || !reflect.DeepEqual(got, c.event) {
				t.Errorf("%s\nis read as %+v, %v; want %+v", text, got, err, c.event)
			}
		}
	}
}

// A line that was cut off within what its event needs is none: half a size is another size.
func TestCutEvents(t *testing.T) {
	for _, c := range events {
		needed := c.line
		for _, rest := range []string{" policy=", " nccl_decides=", " nccl=", " abi=", " because="} {
			needed, _, _ = strings.Cut(needed, rest)
		}
		for n := range strings.LastIndexByte(needed, ' ') {
			if got, err := ReadEvent([]byte(Prefix + needed[:n])); got != nil || err != nil {
				t.Errorf("%q is read as %+v, %v", needed[:n], got, err)
			}
		}
	}
}

// What no release writes is an error, and what the library says in prose is no event.
func TestOtherLines(t *testing.T) {
	for line, want := range map[string]string{
		"decision coll=allrodeo size=1MiB pipe_ops=1 by=x":                               `coll of decision: unknown collective "allrodeo"`,
		"decision coll=allreduce size=1XiB pipe_ops=1 by=x":                              "size of decision: \"1XiB\" is not a number of bytes",
		"decision coll=allreduce size=1MiB pipe_ops=-1 by=x":                             "pipe_ops of decision: -1 is below 0",
		"decision coll=allreduce size=1MiB pipe_ops=1 choice=rign by=x":                  `choice of decision: unknown algorithm "rign"`,
		"decision coll=allreduce size=1MiB asks=ring/ll available=maybe by=x pipe_ops=1": `available of decision: "maybe" (allowed: yes, no)`,
		"init fails: x=1":            "",
		"decision":                   "",
		"decision of the ranks: a=1": "",
		"communicator 0x1: change 1: version 2 at=3": "",
		"passed coll=allreduce":                      "",
	} {
		e, err := ReadEvent([]byte(Prefix + line))
		if want == "" && err == nil && e == nil {
			continue
		}
		if e != nil || err == nil || want == "" || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %s", line, e, err, want)
		}
	}
	if e, err := ReadEvent([]byte("decision coll=allreduce size=1 pipe_ops=1 by=x")); e != nil || err != nil {
		t.Errorf("a line of others: %+v, %v", e, err)
	}
}

// Logs and sweeps of the last releases stay readable.
func TestOldLines(t *testing.T) {
	for line, want := range map[string]Event{
		`0.2.0 communicator 0x6f3a "dp" of 16 ranks on 2 nodes (NCCL 2.30.7, ABI v6): policy policy.csv, 12 rows`: &Start{
			Library: "0.2.0", ID: "0x6f3a", Comm: nccl.Comm{Nodes: 2, Ranks: 16}},
		"0.1.0 communicator of 8 ranks on 1 node (ABI v4): no policy": &Start{Library: "0.1.0", Comm: nccl.Comm{Nodes: 1, Ranks: 8}},
		"allreduce 1MiB, 1 pipelined: ring/ll 8 ch instead of tree/ll, decided by x.csv:1": &Decision{Asks: none, Call: mib, PipeOps: 1,
			Config: nccl.Config{Cell: ring, Channels: 8}, Default: nccl.NoCell, By: "x.csv:1"},
		"communicator 0x1: allreduce 1MiB, 0 pipelined: NCCL's choice, no row matches, decided by NCCL": &Decision{Asks: none, ID: "0x1",
			Call: mib, Config: nccl.Config{Cell: nccl.NoCell}, Default: nccl.NoCell, By: ByNCCL},
		"allreduce 1MiB, 1 pipelined: NCCL's default 8 ch instead of ring/ll, decided by x.csv:1": &Decision{Asks: none, Call: mib,
			PipeOps: 1, Config: nccl.Config{Cell: nccl.NoCell, Channels: 8}, Default: nccl.NoCell, By: "x.csv:1"},
		"available in NCCL for allreduce: ring/ll, tree/simple": &Available{Coll: nccl.CollAllReduce,
			Cells: []nccl.Cell{ring, tree}},
		"NCCL offers for allreduce: ring/ll, x/y": &Available{Coll: nccl.CollAllReduce, Cells: []nccl.Cell{ring}},
		"communicator of 8 ranks on 1 node: 1 row is for other releases of NCCL, and this is 2.28.9: without effect": &NoEffect{
			Why: NoEffectRelease, Is: "1 row is for other releases of NCCL, and this is 2.28.9: without effect"},
		"available in NCCL for allreduce: ri":                  nil,
		"available in NCCL for allrodeo: ring/ll":              nil,
		"allreduce 1MiB, 1 pipelined: ring/ll":                 nil,
		"communicator of 8 ranks on 1 node (ABI v4): one rank": nil,
		"no policy, NCCL decides":                              nil,
	} {
		got, err := ReadEvent([]byte("n1: " + Prefix + line))
		if want == nil && got == nil && err == nil {
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis read as %+v, %v; want %+v", line, got, err, want)
		}
	}
	if e, err := ReadEvent([]byte(Prefix + "allgather 1, 99999999999999999999 pipelined: ring/ll, decided by x")); err == nil {
		t.Errorf("%+v", e)
	}
}

// An event that is read is written as a line that says the same.
func FuzzReadEvent(f *testing.F) {
	for _, c := range events {
		f.Add([]byte("n1: " + Prefix + c.line))
	}
	f.Add([]byte("TUNER/Go: communicator 0x6f: allreduce 1KiB, 1 pipelined: ring/ll 2 ch instead of tree/ll, " +
		"decided by tuner.csv:3"))
	f.Add([]byte("TUNER/Go: available in NCCL for allreduce: ring/ll, ring/simple, x/y"))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := ReadEvent(line)
		if e == nil {
			return
		}
		if err != nil {
			t.Fatalf("%q: an event, and wrong: %v", line, err)
		}
		written := Line(e)
		if again, err := ReadEvent([]byte(written)); err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%q: %+v is written as %q, and read as %+v, %v", line, e, written, again, err)
		}
	})
}

func BenchmarkWorstReadEvent(b *testing.B) {
	hostile.Benchmark(b, func(line []byte) error {
		_, err := ReadEvent(line)
		return err
	},
		hostile.Text{Unit: Prefix}, hostile.Text{Head: Prefix + "decision ", Unit: "x%d=1 "},
		hostile.Text{Head: Prefix + `decision by="`, Unit: `\"`}, hostile.Text{Head: Prefix + "decision by", Unit: "="},
		hostile.Text{Head: Prefix + `available coll=allreduce cells="`, Unit: "ring/ll ", Tail: `"`},
		hostile.Text{Unit: Prefix + "communicator "}, hostile.Text{Head: Prefix + `communicator "`, Unit: `\"`},
		hostile.Text{Head: Prefix + "available in NCCL for allreduce: ", Unit: "ring/ll, "},
		hostile.Text{Head: Prefix + "allreduce 1KiB, 1 pipelined: ", Unit: ", decided by "},
		hostile.Text{Head: Prefix + "allreduce 1KiB, 1 pipelined: ring/ll, decided by ", Unit: " "},
		hostile.Text{Head: Prefix + "allreduce 1KiB, ", Unit: "1", Tail: " pipelined: ring/ll, decided by x"},
		hostile.Text{Head: Prefix, Unit: ": 1 row is for other releases of NCCL, "},
	)
}
