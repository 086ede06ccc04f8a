package tuner

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree"
)

// keepingHost keeps what it is told to remember.
type keepingHost struct {
	mu       sync.Mutex
	versions []map[shape]policy.Decision // by handle-1
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

func (h *keepingHost) Attach() (any, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions = append(h.versions, map[shape]policy.Decision{})
	return uint64(len(h.versions)), nil
}

func (h *keepingHost) Detach(any) {}
func (h *keepingHost) Remember(attached any, q policy.Query, d policy.Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[attached.(uint64)-1][shapeOf(q)] = d
}

// When a version comes into force, the host has its answers to all that was asked
// before, and the log tells them.
func TestANewVersionIsAskedBeforehand(t *testing.T) {
	const shapes = 20
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	lines := make(chan string, 1000)
	log := Log{Emit: func(_ Level, _ string, _ int, text string) { lines <- text }}
	var host keepingHost
	counter := new(agree.Counter)
	c, err := Open(CommInfo{ID: rand.Uint64(), Ranks: 1, Nodes: 1, ABI: 7, Counter: counter, Host: &host},
		env(EnvConfigFile, file, EnvLog, "decisions"), log)
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
	version := uint64(0)
	for deadline := time.Now().Add(20 * time.Second); version == 0; time.Sleep(time.Millisecond) {
		n := counter.Seq.Load()
		if n >= counter.Trig.Load() && !counter.TryMove(n) {
			if err := c.Turn(agree.HashCall(4, n, 1)); err != nil {
				t.Fatal(err)
			}
			version = c.Attached().(uint64) &^ 1 // the first is 1, the next one 2
		}
		counter.Seq.Store(n + 1)
		if time.Now().After(deadline) {
			t.Fatalf("no change within %d calls", n)
		}
	}
	for n := range uint64(shapes) {
		q := query(n)
		if d, ok := host.versions[version-1][shapeOf(q)]; !ok || d.Channels != 2 {
			t.Errorf("%d bytes: the host is to remember %+v, known: %v", n, d, ok)
		}
	}
	late := time.After(20 * time.Second)
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

func TestKnownKeepsTheLatest(t *testing.T) {
	var k known
	const asked = maxKnown + 10
	for n := range uint64(asked) {
		k.add(policy.Query{Bytes: n})
	}
	all := k.latest()
	if len(all) != maxKnown || all[0].Bytes != asked-1 || all[maxKnown-1].Bytes != 10 {
		t.Errorf("%d queries, from %d back to %d", len(all), all[0].Bytes, all[len(all)-1].Bytes)
	}
}
