package bench

import (
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// TrimUnit is what nccl-tests trims sizes to a multiple of: an element, or where each rank has a part of the data
// 16 bytes a rank (getCollByteCount in src/all_gather.cu and src/reduce_scatter.cu, 2.0 to 2.18).
func TrimUnit(coll nccl.Coll, ranks int) uint64 {
	if coll == nccl.CollAllGather || coll == nccl.CollReduceScatter {
		return 16 * uint64(ranks)
	}
	return 4
}

// asks is what a run was to measure, by NCCL's variables, its command, its file's name and what our tuner decided.
type asks struct {
	sample  Sample // of no size: the communicator, and the configuration of the whole run, if there is one
	decided map[logKey]nccl.Config
	said    map[Sample]bool // what is counted as unmet
}

func (u *run) asks(coll nccl.Coll, comm nccl.Comm, file string, claims []claim) *asks {
	s := Sample{
		Call: nccl.Call{Coll: coll}, Comm: comm, Config: merge(slices.Clone(claims)).Config, Selection: SelectionForced,
		Source: file, Simulated: u.facts.gpus[FakePerf],
	}
	return &asks{s, u.log.decided, map[Sample]bool{}}
}

// at is the configuration that was asked for at a size; ok is false where that is not known.
func (a *asks) at(size uint64) (l nccl.Config, ok bool) {
	l = a.sample.Config
	d, decided := a.decided[logKey{operation(a.sample.Coll.String()), size}]
	if decided && d != noLabel && (d.Cell != l.Cell || d.Channels > 0) {
		l = d
	}
	return l, l.Known()
}

// areMet reports whether a sample is of what was asked for.
func (a *asks) areMet(s *Sample) bool {
	l, ok := a.at(s.Bytes)
	counted := l.Channels == 0 || s.Channels == l.Channels && s.Selection != SelectionOwnChannels
	return !ok || counted && s.Cell == l.Cell
}

// unmet records what was asked for at a size, and did not run there.
func (a *asks) unmet(r *Result, size uint64) {
	l, ok := a.at(size)
	s := a.sample
	s.Bytes, s.Config = size, l
	if !ok || a.said[s] || s.Nodes < 1 || s.Ranks < 2 || size == 0 {
		return
	}
	a.said[s] = true
	r.Failed = append(r.Failed, s)
}

// unreached records what a run was to measure after it broke off.
func (u *run) unreached(r *Result, a *asks) {
	unit := TrimUnit(a.sample.Coll, a.sample.Ranks)
	for _, size := range u.sizes {
		size -= size % unit
		if !slices.ContainsFunc(u.rows, func(row row) bool { return row.Bytes == size }) {
			a.unmet(r, size)
		}
	}
}

// stepsOf are the sizes from the first to the last, by a text as "2(factor)" or "1048576(bytes)".
func stepsOf(first, last uint64, text string) (sizes []uint64) {
	const most = 4096 // a run that steps through more is not one that tunefit plans
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
