//go:build cgo

// Command plugin is libnccl-tuner-go.so, the tuner as NCCL loads it. Build it
// with `make`, which adds the linker's part: only the tables are exported, and
// the Go runtime sends no preemption signals.
//
// It exports the data symbols ncclTunerPlugin_v2 to ncclTunerPlugin_v7 and
// nothing else (tables.c). A known shape is answered in C from the
// communicator's cache (cache.h); only a new one reaches Go.
//
// Ownership: C owns the communicator's context and cache, Go owns what the
// handle in it stands for. No Go pointer is stored in C; pointers that C passes
// in are read during the call only.
package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#include <stdlib.h>
#include "comm.h"

static inline void log_text(abi_logger logger, int level, const char *file, int line, const char *text) {
	logger(level, LOG_SUBSYS_INIT | LOG_SUBSYS_TUNING, file, line, "%s", text);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"runtime/cgo"
	"runtime/debug"
	"unsafe"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func main() {} // never runs: a c-shared library has none, but must name one

// A training process has better uses for its cores and its memory. The limit is a
// soft one: beyond it, garbage is collected more eagerly.
func init() {
	runtime.GOMAXPROCS(2)
	debug.SetMemoryLimit(64 << 20)
}

// panicIn makes one exported function panic. Only a test's build sets it, with
// -ldflags -X, to see that a panic stays inside.
var panicIn string

func provoke(function string) {
	if panicIn == function {
		panic("provoked in " + function)
	}
}

// comm is what a handle stands for.
type comm struct {
	*tuner.Comm
	log tuner.Log
}

//export tunergoOpen
func tunergoOpen(info *C.struct_comm_info, handle *C.uintptr_t, idle *C.bool) (result C.int) {
	log := newLog(info.logger)
	defer contain(log, func() { *handle, *idle, result = 0, true, C.RESULT_SUCCESS })
	provoke("open")
	c, err := tuner.Open(tuner.CommInfo{
		ID:    uint64(info.id),
		Ranks: int(info.ranks),
		Nodes: int(info.nodes),
		ABI:   int(info.abi),
	}, getenv, log)
	if err != nil {
		log.Warnf("init fails: %v", err)
		return C.RESULT_INVALID_USAGE
	}
	*handle = C.uintptr_t(cgo.NewHandle(&comm{c, log}))
	*idle = C.bool(c.Idle())
	return C.RESULT_SUCCESS
}

// tunergoDecide returns false after a panic: this communicator asks no more.
//
//export tunergoDecide
func tunergoDecide(handle C.uintptr_t, q *C.struct_query, answer *C.struct_answer) (ok C.bool) {
	c := cgo.Handle(handle).Value().(*comm)
	defer contain(c.log, func() { ok = false })
	provoke("decide")
	d := c.Decide(policy.Query{
		Coll:    policy.Coll(q.coll),
		Bytes:   uint64(q.bytes),
		PipeOps: int(q.pipe_ops),
		RegBuff: int(q.reg_buff),
		Costs: policy.Costs{
			Micros:        unsafe.Slice((*float32)(q.table), int(q.num_algo)*int(q.num_proto)),
			NumProto:      int(q.num_proto),
			AvailableOnly: bool(q.available_only),
		},
	})
	cell := d.Algo*int(q.num_proto) + d.Proto
	switch {
	case d.Algo >= 0:
		answer.chunk_slot = C.uint8_t(C.chunk_slot(q.coll, C.int(cell)))
	case d.Tied:
		answer.chunk_slot = C.uint8_t(C.any_chunk_slot(q.coll))
	}
	if d.Write {
		answer.cell, answer.micros = C.int8_t(cell), C.float(d.Micros)
	}
	answer.channels = C.int8_t(d.Channels)
	answer.chunk = C.uint64_t(d.ChunkBytes)
	return true
}

//export tunergoClose
func tunergoClose(handle C.uintptr_t) {
	if handle == 0 {
		return
	}
	c := cgo.Handle(handle).Value().(*comm)
	defer contain(c.log, func() {})
	cgo.Handle(handle).Delete()
	c.Close()
}

// contain ends a panic at the boundary: NCCL must get an answer, whatever
// happens here.
func contain(log tuner.Log, giveUp func()) {
	if p := recover(); p != nil {
		giveUp()
		log.Warnf("a defect in the plugin: %v; this communicator goes on without a policy. Please report it with: %s", p, where())
	}
}

// where names the function that panicked, the frame below the runtime's own.
func where() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		if panicked && f.Func != nil && f.Func.Name() != "runtime.panicmem" && f.Func.Name() != "runtime.sigpanic" {
			return fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return "no stack"
		}
	}
}

// getenv asks C: Go's own copy of the environment is as old as the library, and
// NCCL adds the settings of its own files later.
func getenv(name string) string {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	value := C.getenv(key)
	if value == nil {
		return ""
	}
	return C.GoString(value)
}

func newLog(logger C.abi_logger) tuner.Log {
	if logger == nil {
		return tuner.Log{}
	}
	return tuner.Log{Emit: func(level tuner.Level, file string, line int, text string) {
		cFile, cText := C.CString(file), C.CString(text)
		defer C.free(unsafe.Pointer(cFile))
		defer C.free(unsafe.Pointer(cText))
		C.log_text(logger, C.int(level), cFile, C.int(line), cText)
	}}
}
