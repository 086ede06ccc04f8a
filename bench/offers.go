package bench

import (
	"regexp"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

var offersLine = regexp.MustCompile(`TUNER/Go: (?:communicator 0x[0-9a-f]+: )?NCCL offers for (\w+): (.*?)\s*$`)

// parseOffers reads a line of our library's log that says what NCCL has for a collective
// (tuner/telemetry/decisionlog.go).
//
//	TUNER/Go: NCCL offers for allreduce: ring/ll, ring/simple
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
// GPUs that meet in the host's memory have no NVLink for NCCL, and then it offers LL128 to nobody (docs/NCCL.md).
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
