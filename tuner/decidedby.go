package tuner

import (
	"strconv"
	"strings"
)

// The end of a line of NCCL_TUNER_LOG=decisions names what decided: a line of the policy
// file, the model, or NCCL.
const (
	decidedBy = ", decided by "
	byModel   = "model "
	byNCCL    = "NCCL"
)

// DecidedBy is who made a decision. The zero value stands for NCCL.
type DecidedBy struct {
	Row   int  // line of the policy file; 0: no row
	Model bool // the model
	Why   string
}

// ParseDecidedBy reads a line of NCCL_TUNER_LOG=decisions about a policy file and a
// model of these names, of which either may be empty. ok is false for any other line.
func ParseDecidedBy(line, policyFile, modelFile string) (d DecidedBy, ok bool) {
	_, what, ok := strings.Cut(line, " pipelined: ")
	if !ok {
		return d, false
	}
	for _, c := range []struct {
		end string
		set func()
	}{{byNCCL, func() {}}, {byModel + modelFile, func() { d.Model = true }}} {
		if why, found := strings.CutSuffix(what, decidedBy+c.end); found {
			c.set()
			d.Why = why
			return d, true
		}
	}
	at := strings.LastIndex(what, decidedBy+policyFile+":")
	if at < 0 {
		return d, false
	}
	row, err := strconv.Atoi(what[at+len(decidedBy+policyFile+":"):])
	d.Row, d.Why = row, what[:at]
	return d, err == nil
}
