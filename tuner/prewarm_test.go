package tuner

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// keepingCache keeps what it is told to remember.
type keepingCache struct {
	mu        sync.Mutex
	decisions map[shape]policy.Decision
}

type shape struct {
	coll             nccl.Coll
	bytes            uint64
	pipeOps, regBuff int
	numProto         int
	costs            [6]float32
}

func shapeOf(q policy.Query) shape {
	return shape{q.Coll, q.Bytes, q.PipeOps, q.RegBuff, q.Costs.NumProto, [6]float32(q.Costs.Micros)}
}

func newKeepingCache() (Cache, error) {
	return &keepingCache{decisions: map[shape]policy.Decision{}}, nil
}

func (c *keepingCache) Free()                 {}
func (c *keepingCache) Hits() []atomic.Uint64 { return nil }
func (c *keepingCache) Remember(q policy.Query, d Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decisions[shapeOf(q)] = d.Decision
}

// When a version comes into force, the host has its answers to all that was asked
// before, and the log tells them.
func TestANewVersionIsAskedBeforehand(t *testing.T) {
	const shapes = 20
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	lines := make(chan string, 1000)
	log := Log{Emit: func(_ Level, _ string, _ int, text string) { lines <- text }}
	counter := new(agree.Counter)
	c, err := New(env(EnvConfigFile, file, EnvLog, "decisions")).Open(
		CommInfo{ID: rand.Uint64(), Ranks: 1, Nodes: 1, ABI: 7, Counter: counter, NewCache: newKeepingCache}, log)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	costs := make([]float32, 6)
	query := func(n uint64) policy.Query {
		copy(costs, []float32{float32(n) + 1, 30, 31, 32, 33, 34}) // NCCL's table, filled anew for each call
		return policy.Query{Coll: nccl.CollAllReduce, Bytes: n, PipeOps: 1 + int(n%3), RegBuff: int(n % 2), Costs: nccl.Costs{Micros: costs, NumProto: 3}}
	}
	for n := range uint64(shapes) {
		c.Decide(query(n))
	}
	write(t, file, rows(2))
	first := c.Cache()
	for deadline := time.Now().Add(2 * time.Minute); c.Cache() == first; time.Sleep(time.Millisecond) {
		n := counter.Seq.Load()
		if n >= counter.Trigger.Load() {
			if err := c.AtTrigger(agree.HashCall(4, n, 1)); err != nil {
				t.Fatal(err)
			}
		}
		counter.Seq.Store(n + 1)
		if time.Now().After(deadline) {
			t.Fatalf("no change within %d calls", n)
		}
	}
	for n := range uint64(shapes) {
		q := query(n)
		if d, ok := c.Cache().(*keepingCache).decisions[shapeOf(q)]; !ok || d.Channels != 2 {
			t.Errorf("%d bytes: the cache has %+v, known: %v", n, d, ok)
		}
	}
	late := time.After(2 * time.Minute)
	for told := 0; told < shapes; {
		select {
		case line := <-lines:
			if strings.Contains(line, "ring/ll128, 2 channels") {
				told++
			}
		case <-late:
			t.Fatalf("%d of %d decisions are logged", told, shapes)
		}
	}
}

func TestRecentQueriesAreTheLatest(t *testing.T) {
	var r recentQueries
	const asked = maxRecent + 10
	for n := range uint64(asked) {
		r.add(policy.Query{Bytes: n})
	}
	all := r.latest()
	if len(all) != maxRecent || all[0].Bytes != asked-1 || all[maxRecent-1].Bytes != 10 {
		t.Errorf("%d queries, from %d back to %d", len(all), all[0].Bytes, all[len(all)-1].Bytes)
	}
}
