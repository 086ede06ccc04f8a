package bench

import (
	"fmt"
	"regexp"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
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

// notOffered records what NCCL does not have for a communicator, by our library's log and by NCCL's of its links.
// NCCL_ALGO and NCCL_PROTO change what our library sees, so its log tells nothing of a run with them. The links do:
// GPUs that meet in the host's memory have no NVLink for NCCL, and then it offers LL128 to nobody (docs/dev/NCCL.md).
func (u *run) notOffered(r *Result, comm nccl.Comm) {
	if comm.Nodes < 1 || comm.Ranks < 2 {
		return
	}
	forced := u.variables.get("NCCL_ALGO") != "" || u.variables.get("NCCL_PROTO") != ""
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
