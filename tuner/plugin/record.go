//go:build cgo

package main

/*
#include "profiler.h"

// cgo knows no atomics of C.
static inline uint32_t load_what(const struct prof_shape *s) { return __atomic_load_n(&s->what, __ATOMIC_ACQUIRE); }
static inline uint64_t load_calls(const struct prof_shape *s) { return __atomic_load_n(&s->calls, __ATOMIC_RELAXED); }
static inline uint64_t load_count(const uint64_t *n) { return __atomic_load_n(n, __ATOMIC_RELAXED); }
static inline bool next_time(struct prof_comm *c, struct prof_time *t) {
	if (c->times_read == __atomic_load_n(&c->times_put, __ATOMIC_ACQUIRE)) return false;
	*t = c->times[c->times_read % TIMES_KEPT];
	__atomic_store_n(&c->times_read, c->times_read + 1, __ATOMIC_RELEASE);
	return true;
}
*/
import "C"

import (
	"runtime/cgo"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// counted is what the profiler half counts of a communicator.
type counted struct {
	c *C.struct_prof_comm
	// at are the places in record.Comm.Calls of the slots in C.
	at [C.SHAPE_SLOTS]int
}

// Read implements tuner.Recorded.
func (r *counted) Read(to *record.Comm) {
	C.prof_tick()
	for i := range r.at {
		s := &r.c.shapes[i]
		what := C.load_what(s)
		if what == 0 {
			continue
		}
		if r.at[i] == 0 {
			to.Calls = append(to.Calls, callOf(uint64(s.bytes), uint32(what)))
			r.at[i] = len(to.Calls)
		}
		to.Calls[r.at[i]-1].Calls = uint64(C.load_calls(s))
	}
	for t := (C.struct_prof_time{}); bool(C.next_time(r.c, &t)); {
		if at := r.at[t.shape]; at > 0 { // else it is new since then
			to.Calls[at-1].Times = append(to.Calls[at-1].Times, record.Time{uint64(t.seq), uint64(t.nanos)})
		}
	}
	to.Unlisted = uint64(C.load_count(&r.c.unlisted))
	to.Distrusted = uint64(C.load_count(&r.c.distrusted))
	to.Dropped = uint64(C.load_count(&r.c.dropped))
}

// callOf reads prof_what.
func callOf(bytes uint64, what uint32) record.Call {
	c := record.Call{Coll: nccl.Coll(what & 15), Bytes: bytes, Channels: int(what >> 16 & 0xff)}
	if algo := what >> 4 & 15; algo != C.NOT_OURS {
		c.Algo, c.Proto = nccl.Algo(algo).String(), nccl.Proto(what>>8&15).String()
	}
	return c
}

// Barred implements tuner.Recorded.
func (r *counted) Barred() string {
	switch C.prof_barred(r.c) {
	case C.BAR_ROOTS:
		return "kernels are timed no more: it makes groups of broadcasts with several roots, after which NCCL loses count of kernels; if it was timing one then, ncclCommDestroy may hang"
	case C.BAR_CAPTURE:
		return "kernels are timed no more: it replays CUDA graphs, after which NCCL loses count of kernels"
	case C.BAR_CAPTURE_IN_WINDOW:
		return "a CUDA graph was captured while kernels were timed: NCCL goes on timing them to the end, which costs time, and they are not recorded"
	}
	return ""
}

type recording struct {
	log tuner.Log
	end func()
}

// tunergoRecord returns false where nothing is recorded.
//
//export tunergoRecord
func tunergoRecord(c *C.struct_prof_comm, handle *C.uintptr_t) (records C.bool) {
	log := newLog(c.logger)
	defer contain(log, func() { records = false })
	provoke("record")
	r, kernels := process.Record(tuner.RecordInfo{
		ID: uint64(c.id), Rank: int(c.rank), Ranks: int(c.ranks), Nodes: int(c.nodes), ABI: int(c.abi),
	}, &counted{c: c}, log)
	if r == nil {
		return false
	}
	c.wants_times = C.bool(kernels)
	*handle = C.uintptr_t(cgo.NewHandle(&recording{log, func() { process.RecordEnd(r) }}))
	return true
}

// tunergoRecordEnd returns false after a panic: Go may go on reading.
//
//export tunergoRecordEnd
func tunergoRecordEnd(handle C.uintptr_t) (ok C.bool) {
	r := cgo.Handle(handle).Value().(*recording)
	defer contain(r.log, func() { ok = false })
	provoke("record end")
	cgo.Handle(handle).Delete()
	r.end()
	return true
}
