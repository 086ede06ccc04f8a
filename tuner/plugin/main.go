//go:build cgo

// Command plugin is libnccl-tuner-go.so, the tuner as NCCL loads it. Build it
// with `make`, which adds the linker's part: only what exports.map names is exported, and
// the Go runtime sends no preemption signals.
//
// It exports the tables of the tuner's and the profiler's ABI (tables.c, profiler.c)
// and tunergoVersion. A known shape is answered in C from the
// communicator's cache (cache.h); only a new one reaches Go.
//
// Ownership: C owns the communicator's context and cache. Go owns what the handle in it stands
// for, and frees it once no call is inside (context.h). Go also owns the version in force. C has
// what follows from it: the cache of its decisions, which C empties at a switch, and its counts of
// calls, which Go clears then. No Go pointer is stored in C; pointers that C passes
// in are read during the call only.
//
// docs/dev/ARCHITECTURE.md follows a decision from C to Go and back; docs/dev/NCCL.md has the ABI.
package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#include <stdlib.h>
#include "comm.h"
#include "environment.h"
#include "open_files.h"

static inline void log_text(abi_logger logger, int level, const char *file, int line, const char *text) {
	logger(level, LOG_SUBSYS_INIT | LOG_SUBSYS_TUNING, file, line, "%s", text);
}
*/
import (
	"C"
)

import (
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"runtime/cgo"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	_ "github.com/nccl-tuner-go/nccl-tuner-go/internal/abi" // abi.h
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

func main() {} // never runs; Go wants one in a c-shared library

// The training process needs its cores and its memory. The heap's limit follows the live data and
// ignores GOGC and GOMEMLIMIT of the job's environment: without collections garbage would stay,
// and under a fixed limit a policy larger than that would keep the collector busy for ever.
//
// The first collection starts worker threads, which stay: one for every four processors that Go may use then. So
// the Makefile's runtime makes no collections until there is a limit of two.
func init() {
	C.open_files_restore()
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(100)
	debug.SetMemoryLimit(math.MaxInt64)
}

// envPanicIn is the environment variable that names an exported function that must panic. Only a test's build
// sets it, by -ldflags -X. The test checks that a panic does not leave the library.
var envPanicIn string

func injectPanic(function string) {
	if envPanicIn != "" && os.Getenv(envPanicIn) == function {
		panic("provoked in " + function)
	}
}

// The two sides of the counter must be laid out alike.
var (
	_ [unsafe.Sizeof(agree.Counter{})]byte           = [C.sizeof_struct_counter]byte{}
	_ [unsafe.Offsetof(agree.Counter{}.Trigger)]byte = [unsafe.Offsetof(C.struct_counter{}.trigger)]byte{}
	_ [unsafe.Offsetof(agree.Counter{}.Last)]byte    = [unsafe.Offsetof(C.struct_counter{}.last)]byte{}
	_ [unsafe.Offsetof(agree.Counter{}.All)]byte     = [unsafe.Offsetof(C.struct_counter{}.all)]byte{}
)

// So must the two sides of the clock.
var (
	_ [unsafe.Sizeof(trial.Clock{})]byte          = [C.sizeof_struct_clock]byte{}
	_ [unsafe.Offsetof(trial.Clock{}.Every)]byte  = [unsafe.Offsetof(C.struct_clock{}.every)]byte{}
	_ [unsafe.Offsetof(trial.Clock{}.Head)]byte   = [unsafe.Offsetof(C.struct_clock{}.head)]byte{}
	_ [unsafe.Offsetof(trial.Clock{}.Tail)]byte   = [unsafe.Offsetof(C.struct_clock{}.tail)]byte{}
	_ [unsafe.Offsetof(trial.Clock{}.Stamps)]byte = [unsafe.Offsetof(C.struct_clock{}.stamps)]byte{}
	_ [unsafe.Sizeof(trial.Stamp{})]byte          = [C.sizeof_struct_stamp]byte{}
	_ [unsafe.Offsetof(trial.Stamp{}.Hash)]byte   = [unsafe.Offsetof(C.struct_stamp{}.hash)]byte{}
	_ [unsafe.Offsetof(trial.Stamp{}.Nanos)]byte  = [unsafe.Offsetof(C.struct_stamp{}.nanos)]byte{}
	_ [trial.ClockStamps]byte                     = [C.CLOCK_STAMPS]byte{}
)

var _ [telemetry.MaxDeciders]byte = [C.MAX_DECIDERS]byte{}

// comm is what a handle stands for.
type comm struct {
	*tuner.Communicator
	log   telemetry.Log
	nodes int
}

// process is what this process's communicators share.
var process = tuner.New(getenv)

// startPoller makes the Go runtime start its poller, which the first timer needs. C has just seen that its
// descriptors can be had (descriptors.h). Later there may be none, and the runtime would end the process.
func startPoller() { time.AfterFunc(time.Hour, func() {}).Stop() }

// releases returns what the NCCL that asks may be: the release that it names, else those of its ABI.
func releases(info *C.struct_comm_info) nccl.Releases {
	if v := nccl.Version(info.release); v >= nccl.Oldest {
		return nccl.Only(v)
	}
	return nccl.ReleasesByABI(int(info.abi),
		nccl.Constants{RingLL128: float64(info.ring_ll128), LL: float64(info.ll)})
}

func nameOf(name *C.char) string {
	if name == nil {
		return ""
	}
	return C.GoString(name)
}

// answerOf converts a decision to the struct of cache.h.
func answerOf(q policy.Query, d policy.Decision, decider int) C.struct_answer {
	cell := q.Costs.Index(d.Cell)
	a := C.struct_answer{cell: -1, chunk_slot: C.NO_CHUNK_SLOT, channels: C.int8_t(d.Channels),
		decider: C.uint16_t(decider),
		chunk:   C.uint32_t(min(d.ChunkBytes, math.MaxUint32))} // more than any buffer of NCCL's
	switch {
	case d.Algo >= 0:
		a.chunk_slot = C.uint8_t(C.chunk_slot(C.int(q.Coll), C.int(cell)))
	case d.Tied:
		a.chunk_slot = C.uint8_t(C.any_chunk_slot(C.int(q.Coll)))
	}
	if d.Write {
		a.cell, a.micros = C.int8_t(cell), C.float(d.Micros)
	}
	return a
}

// tunergoVersion is how tunefit doctor asks which build this is.
//
//export tunergoVersion
func tunergoVersion() *C.char { return C.CString(tuner.Release) }

// tunergoOpen opens a communicator. It leaves *decides false if nothing will ever be decided. It sets *passes if it
// must be asked whenever the bytes are not those of the query before. It returns RESULT_SYSTEM_ERROR only after
// a panic. The other ranks may then decide by the policy, and Go may go on using the counter.
//
//export tunergoOpen
func tunergoOpen(info *C.struct_comm_info, handle *C.uintptr_t, decides, passes *C.bool) (result C.int) {
	log := newLog(info.logger)
	var c *tuner.Communicator
	defer recoverToC(log, "init fails", func() {
		if c != nil {
			c.Close()
		}
		*handle, *decides, result = 0, false, C.RESULT_SYSTEM_ERROR
	})
	injectPanic("open")
	startPoller()
	readEnvironment(log)
	counter := (*agree.Counter)(unsafe.Pointer(info.counter))
	if info.ranks == 1 {
		counter = nil // NCCL asks nothing about one rank, so no edit would ever come into force
	}
	c, err := process.Open(tuner.CommInfo{
		ID:   uint64(info.id),
		Rank: int(info.rank),
		Comm: nccl.Comm{Nodes: int(info.nodes), Ranks: int(info.ranks)},
		ABI:  int(info.abi),

		NVLDomains: int(info.nvl_domains),
		NCCL:       releases(info),
		Name:       nameOf(info.name),

		Counter: counter,
		CallsBy: unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(info.calls_by)), telemetry.MaxDeciders),
		Clock:   (*trial.Clock)(unsafe.Pointer(info.clock)),
	}, log)
	if err != nil {
		log.Warnf("init fails: %v", err)
		return C.RESULT_INVALID_USAGE
	}
	*handle = C.uintptr_t(cgo.NewHandle(&comm{c, log, int(info.nodes)}))
	*decides = C.bool(!c.NeverDecides())
	*passes = C.bool(c.HasPasses())
	return C.RESULT_SUCCESS
}

// tunergoAtTrigger takes part in a change of the policy before a call whose call_hash is call. It sets *changed if
// another version is in force. After a panic it clears *decides, and this communicator asks no more.
//
//export tunergoAtTrigger
func tunergoAtTrigger(handle C.uintptr_t, call C.uint64_t, changed, decides *C.bool) (result C.int) {
	c := cgo.Handle(handle).Value().(*comm)
	defer recoverToC(c.log, withoutPolicy, func() { *changed, *decides, result = true, false, C.RESULT_SUCCESS })
	injectPanic("trigger")
	switched, err := c.AtTrigger(uint64(call))
	if *changed = C.bool(switched); err != nil {
		return C.RESULT_SYSTEM_ERROR
	}
	return C.RESULT_SUCCESS
}

// tunergoDecide answers a query. It returns false after a panic, and this communicator asks no more.
//
//export tunergoDecide
func tunergoDecide(handle C.uintptr_t, q *C.struct_query, answer *C.struct_answer) (ok C.bool) {
	c := cgo.Handle(handle).Value().(*comm)
	defer recoverToC(c.log, withoutPolicy, func() { ok = false })
	injectPanic("decide")
	asked := policy.Query{
		Call:    nccl.Call{Coll: nccl.Coll(q.coll), Bytes: uint64(q.bytes)},
		PipeOps: int(q.pipe_ops),
		RegBuff: int(q.reg_buff),
		Costs: nccl.Costs{
			Micros:   unsafe.Slice((*float32)(q.table), int(q.num_algo)*int(q.num_proto)),
			NumProto: int(q.num_proto),
		},
	}
	if told := asked.Costs.Micros; bool(q.v2) {
		asked.Costs = nccl.AvailableV2(asked.Coll, c.nodes, told[C.TOLD_COLLNET] != 0, told[C.TOLD_NVLS] != 0)
	}
	d, decider := c.Decide(asked)
	*answer = answerOf(asked, d, decider)
	return true
}

// tunergoEndWait makes a call that waits in tunergoAtTrigger fail, and each later one too. C calls it on
// another thread when the communicator is about to be closed.
//
//export tunergoEndWait
func tunergoEndWait(handle C.uintptr_t) {
	c := cgo.Handle(handle).Value().(*comm)
	defer recoverToC(c.log, withoutPolicy, func() {})
	c.EndWait()
}

// tunergoClose closes a communicator. No call is inside, and none will follow. It returns false after a
// panic, because Go may then go on using the counter.
//
//export tunergoClose
func tunergoClose(handle C.uintptr_t) (ok C.bool) {
	if handle == 0 {
		return true
	}
	c := cgo.Handle(handle).Value().(*comm)
	defer recoverToC(c.log, withoutPolicy, func() { ok = false })
	injectPanic("close")
	cgo.Handle(handle).Delete()
	c.Close()
	return true
}

// withoutPolicy is the outcome of a panic anywhere but in init.
const withoutPolicy = "this communicator goes on without a policy"

// recoverToC recovers from a panic at the boundary to C, because NCCL must always get an answer.
func recoverToC(log telemetry.Log, outcome string, giveUp func()) {
	if p := recover(); p != nil {
		giveUp()
		log.Warnf("a defect in the plugin: %v; %s. Please report it with: %s", p, outcome, where())
	}
}

// where names the function that panicked: the first frame that is not the runtime's.
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

// environment is what the latest init found in it. Go's own copy is of when the library was loaded. Each init stores a
// map of its own, which nobody changes afterwards: goroutines read it without a lock.
var environment atomic.Pointer[map[string]string]

// getenv returns a variable as the latest init found it. Any goroutine may call it.
func getenv(name string) string { return (*environment.Load())[name] }

var warnSecure, warnUnknown sync.Once

// readEnvironment is called on NCCL's thread, at the begin of an init (environment.h).
func readEnvironment(log telemetry.Log) {
	var n C.size_t
	entries := C.environment_copy(&n)
	defer C.free(unsafe.Pointer(entries))
	if entries == nil {
		if !C.secure_execution() {
			panic("there is no memory") // without variables this rank would decide by another policy than the others
		}
		log.Once(&warnSecure, func() {
			log.Warnf("this program has rights that its user lacks (setuid, setgid or file capabilities): the " +
				"library reads no variables, NCCL decides")
		})
	}
	read := make(map[string]string, n)
	for _, entry := range unsafe.Slice(entries, n) {
		name, value, _ := strings.Cut(C.GoString(entry), "=")
		if _, twice := read[name]; !twice { // as getenv has it
			read[name] = value
		}
	}
	environment.Store(&read)
	log.Once(&warnUnknown, func() {
		for _, name := range slices.Sorted(maps.Keys(read)) {
			if do := tuner.MeantVariable(name); do != "" {
				log.Warnf("%s has no meaning for this tuner (%s)", name, do)
			}
		}
	})
}

func newLog(logger C.abi_logger) telemetry.Log {
	if logger == nil {
		return telemetry.Log{}
	}
	return telemetry.Log{Emit: func(level telemetry.Level, file string, line int, text string) {
		cFile, cText := C.CString(file), C.CString(text)
		defer C.free(unsafe.Pointer(cFile))
		defer C.free(unsafe.Pointer(cText))
		C.log_text(logger, C.int(level), cFile, C.int(line), cText)
	}}
}
