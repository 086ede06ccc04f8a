//go:build cgo

package main

/*
#include "profiler.h"

// cgo does not know C's atomics.
static inline uint32_t load_what(const struct prof_shape *s) { return __atomic_load_n(&s->what, __ATOMIC_ACQUIRE); }
static inline uint64_t load_calls(const struct prof_shape *s) { return __atomic_load_n(&s->calls, __ATOMIC_RELAXED); }
static inline uint64_t load_count(const uint64_t *n) { return __atomic_load_n(n, __ATOMIC_RELAXED); }
*/
import "C"

import (
	"runtime/cgo"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// counted is what the profiler half counts of a communicator.
type counted struct {
	c *C.struct_prof_comm
	// at maps each slot in C to its index in record.CommRecord.Calls plus 1; 0: none yet.
	at [C.SHAPE_SLOTS]int
}

// read is a telemetry.ReadCounts.
func (r *counted) read(to *record.CommRecord) {
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
	to.Unlisted = uint64(C.load_count(&r.c.unlisted))
}

// callOf reads prof_what.
func callOf(bytes uint64, what uint32) record.Call {
	c := record.Call{Call: nccl.Call{Coll: nccl.Coll(what & 15), Bytes: bytes}, Channels: int(what >> 16 & 0xff)}
	if algo := what >> 4 & 15; algo != C.NOT_OURS {
		c.Algo, c.Proto = nccl.Algo(algo).String(), nccl.Proto(what>>8&15).String()
	}
	return c
}

type recording struct {
	*telemetry.Recording
	log telemetry.Log
}

// tunergoRecord begins to record a communicator. It returns false if nothing is recorded.
//
//export tunergoRecord
func tunergoRecord(c *C.struct_prof_comm, handle *C.uintptr_t) (records C.bool) {
	log := newLog(c.logger)
	defer recoverToC(log, withoutPolicy, func() { records = false })
	injectPanic("record")
	startPoller()
	readEnvironment(log)
	r := process.Record(record.CommRecord{
		ID: telemetry.CommID(uint64(c.id)), Rank: int(c.rank),
		Comm: nccl.Comm{Nodes: int(c.nodes), Ranks: int(c.ranks)},
	}, (&counted{c: c}).read, log)
	if r == nil {
		return false
	}
	*handle = C.uintptr_t(cgo.NewHandle(&recording{r, log}))
	return true
}

// tunergoRecordEnd ends a recording. It returns false after a panic, because Go may then go on reading.
//
//export tunergoRecordEnd
func tunergoRecordEnd(handle C.uintptr_t) (ok C.bool) {
	r := cgo.Handle(handle).Value().(*recording)
	defer recoverToC(r.log, withoutPolicy, func() { ok = false })
	injectPanic("record end")
	cgo.Handle(handle).Delete()
	r.End()
	return true
}
