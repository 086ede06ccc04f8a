package policyfile

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// garbage is the memory that reading files leaves behind, many times their size. Little is
// allocated later, so the collector would not run and it would stay for the life of the job.
type garbage struct {
	left  atomic.Bool
	going sync.RWMutex // held for reading while a goroutine frees it
}

// DeferGC makes the collector wait until the first files are read, since its runs take an
// eighth of the time of a job's start. giveBack ends that.
func DeferGC() { debug.SetGCPercent(400) }

// giveBack starts a goroutine that frees the garbage.
func (g *garbage) giveBack() {
	if !g.left.Swap(false) {
		return
	}
	g.going.RLock()
	go func() {
		defer g.going.RUnlock()
		debug.SetGCPercent(100) // see DeferGC
		debug.FreeOSMemory()
	}()
}

// wait returns when no such goroutine runs.
func (g *garbage) wait() {
	g.going.Lock()
	defer g.going.Unlock()
}
