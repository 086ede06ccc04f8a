package bench

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// mark is what a log of tunefit sweep says of itself in its first line.
type mark struct {
	is   bool
	coll string // folded
	nccl.Comm
	verify bool
	asked  nccl.Config // by the policy of the run; noLabel: none, or several
}

// verifyWord is what a run is for whose samples are a verification. It stands before their source, too.
const verifyWord = "verify"

var markLine = regexp.MustCompile(
	`^tunefit sweep [a-z0-9_-]+: ([a-z]+) ([0-9]{1,7})x([0-9]{1,7}), ([a-z]+)(?: (\S+))?\s*$`)

// Mark is the first line of the log of a run that tunefit sweep starts, or a script of its dry run: the name of the
// run, what it measures, what for, and the only configuration that its policy asks for, if it is one.
//
//	# tunefit sweep allreduce-1n-8r-ring-ll-4ch: allreduce 1x8, measure ring/ll/4
func Mark(name string, coll nccl.Coll, comm nccl.Comm, what string, configs []nccl.Config) string {
	line := fmt.Sprintf("# tunefit sweep %s: %s %s, %s", name, coll, comm, what)
	if len(configs) == 1 {
		line += " " + configs[0].Label()
	}
	return line
}

// marked takes such a line, which begins another run.
func (t *text) marked(body []byte) bool {
	m := markLine.FindSubmatch(body)
	if m == nil {
		return false
	}
	t.fresh(t.run.header)
	nodes := atoi(m[2])
	t.r.mark = mark{is: true, coll: fold(string(m[1])), Comm: nccl.Comm{Nodes: nodes, Ranks: nodes * atoi(m[3])},
		verify: string(m[4]) == verifyWord, asked: noLabel}
	if c, err := nccl.ParseConfig(string(m[5])); err == nil {
		t.r.mark.asked = c
	}
	return true
}

// LoggedDecision is a line of our library's log with NCCL_TUNER_LOG=decisions (tuner/decisionlog.go).
type LoggedDecision struct {
	Comm string // identity of the communicator, as 0x6f3a; empty: the line names none
	nccl.Call
	PipeOps     int
	nccl.Config // its cell is NoCell where the log does not name NCCL's default
	By          string
}

// ByNCCL is who decided where the library left a call to NCCL.
const ByNCCL = "NCCL"

// Earlier releases wrote "NCCL's choice", and "NCCL offers" in offersLine.
var (
	decisionLine = regexp.MustCompile(
		`TUNER/Go: (?:communicator (0x[0-9a-f]+): )?(\w+) (\w+), (\d{1,20}) pipelined: (.*), decided by (.*?)\s*$`)
	choiceText = regexp.MustCompile(
		`^(?:NCCL's (?:default|choice)|([A-Za-z_]+)/([A-Za-z0-9]+))(?: (\d{1,20}) ch)?(?:,| instead |$)`)
)

// ParseDecision reads a line of a log, whatever NCCL and a launcher put before it. ok is false where the line is no
// decision, the error says why one cannot be read.
//
//	TUNER/Go: allreduce 1KiB, 1 pipelined: ring/ll 2 ch instead of tree/ll, decided by tuner.csv:3
func ParseDecision(line []byte) (d LoggedDecision, ok bool, err error) {
	m := decisionLine.FindSubmatch(line)
	if m == nil {
		return d, false, nil
	}
	d = LoggedDecision{Comm: string(m[1]), Config: noLabel, By: string(m[6])}
	if d.Coll, err = nccl.Colls.Parse(string(m[2])); err != nil {
		return d, true, err
	}
	if d.Bytes, err = nccl.ParseBytes(string(m[3])); err != nil {
		return d, true, err
	}
	if d.PipeOps, err = strconv.Atoi(string(m[4])); err != nil {
		return d, true, err
	}
	c := choiceText.FindSubmatch(m[5])
	if c == nil {
		return d, true, fmt.Errorf("%s is not a choice (needed: ALGORITHM/PROTOCOL or NCCL's default)",
			wording.Quote(string(m[5])))
	}
	if c[1] != nil {
		if d.Cell, err = nccl.ParseCell(string(c[1]), string(c[2])); err != nil {
			return d, true, err
		}
	}
	if c[3] != nil {
		d.Channels, err = strconv.Atoi(string(c[3]))
	}
	return d, true, err
}

var offersLine = regexp.MustCompile(
	`TUNER/Go: (?:communicator 0x[0-9a-f]+: )?(?:available in NCCL|NCCL offers) for (\w+): (.*?)\s*$`)

// parseOffers reads a line of our library's log that says what NCCL has for a collective
// (tuner/telemetry/decisionlog.go).
//
//	TUNER/Go: available in NCCL for allreduce: ring/ll, ring/simple
func parseOffers(line []byte) (coll nccl.Coll, cells []nccl.Cell, ok bool) {
	m := offersLine.FindSubmatch(line)
	if m == nil {
		return 0, nil, false
	}
	coll, err := nccl.Colls.Parse(string(m[1]))
	if err != nil {
		return 0, nil, false
	}
	for name := range strings.SplitSeq(string(m[2]), ", ") {
		algo, proto, _ := strings.Cut(name, "/")
		if c, err := nccl.ParseCell(algo, proto); err == nil {
			cells = append(cells, c)
		}
	}
	return coll, cells, len(cells) > 0
}

// notOffered records what NCCL does not have for a communicator, by our library's log and by NCCL's of its links.
// NCCL_ALGO and NCCL_PROTO change what our library sees, so its log tells nothing of a run with them. The links do:
// GPUs that meet in the host's memory have no NVLink for NCCL, and then it offers LL128 to nobody (docs/dev/NCCL.md).
func (u *run) notOffered(r *Result, env *environment, comm nccl.Comm) {
	if comm.Nodes < 1 || comm.Ranks < 2 {
		return
	}
	forced := env.get("ALGO") != "" || env.get("PROTO") != ""
	noLL128 := u.log.sharesMem && !nccl.IsRCCL(u.metadata.NCCL)
	for _, coll := range nccl.AllColls() {
		has := u.log.offered[coll]
		for algo, proto := range nccl.Cells {
			cell := nccl.Cell{Algo: algo, Proto: proto}
			isNot := has != nil && !has[cell] && !forced || noLL128 && proto == nccl.ProtoLL128
			if !isNot || !nccl.Offers(coll, cell) {
				continue
			}
			s := Sample{Call: nccl.Call{Coll: coll}, Comm: comm, Config: nccl.Config{Cell: cell},
				Selection: SelectionForced, Source: r.File, Simulated: u.metadata.gpus[FakePerf]}
			if !r.notOffered[s] {
				r.notOffered[s] = true
				r.NotOffered = append(r.NotOffered, s)
			}
		}
	}
}
