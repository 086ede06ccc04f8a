package bench

import (
	"fmt"
	"regexp"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// sweepMark is what a log of tunefit sweep says of itself in its first line.
type sweepMark struct {
	is   bool
	coll string // folded
	nccl.Comm
	verify bool
	asked  nccl.Config // by the policy of the run; noLabel: none, or several
	// setting has the variables that the sweep gave the run beside the site's own; of an empty value: it was unset.
	setting settings
}

// verifyWord is what a run is for whose samples are a verification. It stands before their source, too.
const verifyWord = "verify"

var markLine = regexp.MustCompile(
	`^tunefit sweep [a-z0-9_-]+: ([a-z]+) ([0-9]{1,7})x([0-9]{1,7}), ([a-z]+)(?: ([^ =]+))?(?: under (.+?))?\s*$`)

// noMark is that of other logs.
var noMark = sweepMark{asked: noLabel}

// markOf reads such a line.
func markOf(line []byte) sweepMark {
	m := markLine.FindStringSubmatch(string(line))
	if m == nil {
		return noMark
	}
	nodes := atoi(m[2])
	read := sweepMark{is: true, coll: fold(m[1]), Comm: nccl.Comm{Nodes: nodes, Ranks: nodes * atoi(m[3])},
		verify: m[4] == verifyWord, asked: noLabel, setting: SettingOf(m[6])}
	if c, err := nccl.ParseConfig(m[5]); err == nil {
		read.asked = c
	}
	return read
}

// Mark is the first line of the log of a run that tunefit sweep starts, or a script of its dry run: the name of the
// run, what it measures, what for, the only configuration that its policy asks for, if it is one, and the setting.
//
//	# tunefit sweep allreduce-1n-8r-ring-ll-4ch: allreduce 1x8, measure ring/ll/4 under NCCL_NTHREADS=256
func Mark(name string, coll nccl.Coll, comm nccl.Comm, what string, configs []nccl.Config, setting string) string {
	line := fmt.Sprintf("# tunefit sweep %s: %s %s, %s", name, coll, comm, what)
	if len(configs) == 1 {
		line += " " + configs[0].Label()
	}
	if setting != "" {
		line += " under " + setting
	}
	return line
}
