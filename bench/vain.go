package bench

import (
	"cmp"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// request is what a run was told to measure, by NCCL's variables, the caller, tunefit sweep and our tuner's decisions.
// It collects what of that did not run.
type request struct {
	*testRun
	sample Sample // of no size: the communicator, and the configuration of the whole run, if there is one
	said   map[Sample]bool
	failed []Sample
}

// asks is the configuration that a run was told to use, as far as it is one.
func (u *testRun) asks(op operation) nccl.Config {
	user := *cmp.Or(u.opts.Config, &noLabel)
	c, _, _ := merge(claim{Config: user}, claim{Config: u.settings.config(op)}, claim{Config: u.mark.asked})
	c.Cell = alone(c.Cell)
	return c
}

// inVain is a sample of what did not run.
func (u *testRun) inVain(coll nccl.Coll, comm nccl.Comm, c nccl.Config) Sample {
	return Sample{Call: nccl.Call{Coll: coll}, Comm: comm, Config: c, Selection: SelectionForced, Source: u.file,
		Simulated: u.devices.gpus[FakePerf]}
}

// isWhole reports whether the communicator is known.
func (q *request) isWhole() bool { return q.sample.Nodes >= 1 && q.sample.Ranks >= 2 }

// at is the configuration that was asked for at a size; ok is false where that is not known.
func (q *request) at(size uint64, pass int) (l nccl.Config, ok bool) {
	l = q.sample.Config
	logged := q.log.at(operation(q.sample.Coll.String()), size, pass)
	if logged.asked != nil {
		return *logged.asked, true
	}
	if d := cmp.Or(logged.decided, &noLabel); *d != noLabel && (d.Cell != l.Cell || d.Channels > 0) {
		l = *d
	}
	return l, l.Known()
}

// isMet reports whether a sample ran with the configuration that was asked for.
func (q *request) isMet(s *Sample) bool {
	l, ok := q.at(s.Bytes, s.Pass)
	counted := l.Channels == 0 || s.Channels == l.Channels && s.Selection != SelectionOwnChannels
	return !ok || counted && s.Cell == l.Cell
}

// unmet records, once, that the configuration that was asked for did not run at a size.
func (q *request) unmet(size uint64, pass int) {
	s, ok := q.sample, false
	s.Bytes = size
	if s.Config, ok = q.at(size, pass); ok && !q.said[s] && q.isWhole() && size > 0 {
		q.said[s], q.failed = true, append(q.failed, s)
	}
}

// brokeOff records what a run did not measure: nothing, if NCCL refused, else the sizes that it did not come to.
func (q *request) brokeOff(refused bool) {
	if s := q.sample; refused {
		if q.log.refusedAll() {
			s.Channels = 0 // what is offered does not depend on them
		}
		if s.Known() {
			q.failed = append(q.failed, s)
		}
		return
	}
	measured, pass := map[uint64]bool{}, 1 // that it broke off in
	for i := range q.rows {
		if q.rows[i].Pass > pass {
			measured, pass = map[uint64]bool{}, q.rows[i].Pass
		}
		measured[q.rows[i].Bytes] = true
	}
	unit := TrimUnit(q.sample.Coll, q.sample.Ranks)
	for _, size := range q.sizes {
		if size -= size % unit; !measured[size] {
			q.unmet(size, pass)
		}
	}
}

// notOffered adds what NCCL does not have for a communicator, by our library's log and by NCCL's of its links.
// NCCL_ALGO and NCCL_PROTO change what our library sees, so its log tells nothing of a run with them. The links do:
// GPUs that meet in the host's memory have no NVLink for NCCL, and then it offers LL128 to nobody (docs/dev/NCCL.md).
func (u *testRun) notOffered(r *Result, s Sample) {
	if s.Nodes < 1 || s.Ranks < 2 {
		return
	}
	forced := u.settings.forceCell()
	noLL128 := u.log.sharesMem && !nccl.IsRCCL(u.known.NCCL)
	for _, coll := range nccl.AllColls() {
		for algo, proto := range nccl.Cells {
			cell := nccl.Cell{Algo: algo, Proto: proto}
			has, told := u.log.offers[family{coll, cell}]
			if (!forced && told && !has || noLL128 && proto == nccl.ProtoLL128) && nccl.Offers(coll, cell) {
				lacks := u.inVain(coll, s.Comm, nccl.Config{Cell: cell})
				if !r.notOffered[lacks] {
					r.notOffered[lacks], r.NotOffered = true, append(r.NotOffered, lacks)
				}
			}
		}
	}
}
