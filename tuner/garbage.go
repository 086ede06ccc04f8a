package tuner

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// garbage is what reading files leaves behind, many times their size. Nothing much is
// allocated later, so it would stay for the life of the job.
type garbage struct {
	left  atomic.Bool
	going sync.RWMutex // held for reading while a goroutine gives it back
}

// DeferGC lets garbage lie until the first files are read: to collect it meanwhile takes
// an eighth of the time that a job waits for its start. Then it is given back.
func DeferGC() { debug.SetGCPercent(400) }

// giveBack begins to give back what files that were read left behind.
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

// wait returns when nothing is being given back.
func (g *garbage) wait() {
	g.going.Lock()
	defer g.going.Unlock()
}
