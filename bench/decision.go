package bench

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// LoggedDecision is a line of our library's log with NCCL_TUNER_LOG=decisions (tuner/decisionlog.go).
type LoggedDecision struct {
	Comm string // identity of the communicator, as 0x6f3a; empty: the line names none
	nccl.Call
	PipeOps     int
	nccl.Config // its cell is NoCell where the log does not name NCCL's choice
	By          string
}

// ByNCCL is who decided where the library left a call to NCCL.
const ByNCCL = "NCCL"

var (
	decisionLine = regexp.MustCompile(
		`TUNER/Go: (?:communicator (0x[0-9a-f]+): )?(\w+) (\w+), (\d{1,20}) pipelined: (.*), decided by (.*?)\s*$`)
	choiceText = regexp.MustCompile(
		`^(?:NCCL's choice|([A-Za-z_]+)/([A-Za-z0-9]+))(?: (\d{1,20}) ch)?(?:,| instead |$)`)
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
		return d, true, fmt.Errorf("%s is not a choice (needed: ALGORITHM/PROTOCOL or NCCL's choice)",
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
