package bench

import (
	"math"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// TrimUnit is the unit, in bytes, that nccl-tests rounds sizes down to. It is an element, or 16 bytes for each rank
// where each rank has a part of the data (getCollByteCount in src/all_gather.cu and src/reduce_scatter.cu, 2.0 to
// 2.18).
func TrimUnit(coll nccl.Coll, ranks int) uint64 {
	if coll == nccl.CollAllGather || coll == nccl.CollReduceScatter {
		return 16 * uint64(ranks)
	}
	return 4
}

// request is what a run was told to measure, by NCCL's variables, the caller, tunefit sweep and our tuner's decisions.
type request struct {
	sample  Sample // of no size: the communicator, and the configuration of the whole run, if there is one
	decided map[logKey]nccl.Config
	said    map[uint64]bool // sizes that unmet has recorded
}

func (u *run) request(coll nccl.Coll, comm nccl.Comm, r *Result, env *environment) *request {
	s := Sample{
		Call: nccl.Call{Coll: coll}, Comm: comm, Config: r.asked(env, operation(coll.String())),
		Selection: SelectionForced, Source: r.File, Simulated: u.metadata.gpus[FakePerf],
	}
	return &request{s, u.log.decided, map[uint64]bool{}}
}

// at is the configuration that was asked for at a size; ok is false where that is not known.
func (a *request) at(size uint64) (l nccl.Config, ok bool) {
	l = a.sample.Config
	d, decided := a.decided[logKey{operation(a.sample.Coll.String()), size}]
	if decided && d != noLabel && (d.Cell != l.Cell || d.Channels > 0) {
		l = d
	}
	return l, l.Known()
}

// areMet reports whether a sample ran with the configuration that was asked for.
func (a *request) areMet(s *Sample) bool {
	l, ok := a.at(s.Bytes)
	counted := l.Channels == 0 || s.Channels == l.Channels && s.Selection != SelectionOwnChannels
	return !ok || counted && s.Cell == l.Cell
}

// unmet records, once, that the configuration that was asked for did not run at a size.
func (a *request) unmet(r *Result, size uint64) {
	l, ok := a.at(size)
	s := a.sample
	s.Bytes, s.Config = size, l
	if !ok || a.said[size] || s.Nodes < 1 || s.Ranks < 2 || size == 0 {
		return
	}
	a.said[size] = true
	r.Failed = append(r.Failed, s)
}

// unreached records the sizes that a run had not measured when it broke off.
func (u *run) unreached(r *Result, a *request) {
	measured := map[uint64]bool{}
	for i := range u.rows {
		measured[u.rows[i].Bytes] = true
	}
	unit := TrimUnit(a.sample.Coll, a.sample.Ranks)
	for _, size := range u.sizes {
		if size -= size % unit; !measured[size] {
			a.unmet(r, size)
		}
	}
}

// stepsOf returns the sizes from the first to the last. The text is the step, as "2(factor)" or "1048576(bytes)".
func stepsOf(first, last uint64, text string) (sizes []uint64) {
	const most = 512 // a run that steps through more is not one that tunefit asks for
	number, kind, _ := strings.Cut(text, "(")
	step := uint64(atoi([]byte(number)))
	for size := first; size <= last && len(sizes) < most; {
		sizes = append(sizes, size)
		switch {
		case kind == "factor)" && step > 1 && size > 0 && size <= math.MaxUint64/step:
			size *= step
		case kind == "bytes)" && step > 0 && size <= math.MaxUint64-step:
			size += step
		default:
			return sizes
		}
	}
	return sizes
}
