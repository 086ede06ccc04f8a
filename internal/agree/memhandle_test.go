package agree

// The store as the ranks of a simulation see it. memStore (memstore_test.go) holds the records. Each rank has a
// memHandle, whose operations travel to the store and back: do gives each the fate that memdraw_test.go draws from
// the seed, and that a test may replace.

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memFaults bound what goes wrong for one handle by chance. The zero value is a perfect store.
type memFaults struct {
	Delay       time.Duration // the maximum time of a request to the store, and of the reply back
	LoseRequest float64       // the probability that an operation has no effect and returns an error
	LoseReply   float64       // the probability that it has its effect and returns an error
	Stale       time.Duration // the maximum time for which this rank does not see a record of another
}

// memOp is one operation.
type memOp struct {
	Kind string // put, get, list, made, mark, move or remove
	Key  string
	Nth  int // how many times this kind of operation was done on this key before
}

// memFate is what becomes of an operation. The zero value is a success without delay.
type memFate struct {
	Request   time.Duration // until it takes effect, whether or not anyone waits
	Reply     time.Duration // from then until the caller knows
	Lost      bool          // it takes no effect and fails
	ReplyLost bool          // it takes effect and fails
	Err       error         // it takes no effect and fails so
}

// Errors of operations.
var (
	errMemLost = errors.New("no reply")
	errDown    = errors.New("down")
)

// memHandle is the store as one rank sees it.
type memHandle struct {
	// Name is for the test's own use.
	Name string
	// Tamper, if not nil, may choose the fate of an operation.
	Tamper func(op memOp, drawn memFate) memFate

	store  *memStore
	seed   uint64
	faults memFaults

	fresh uint64 // memRecord.nth up to which this rank sees all records, whatever Stale says; under the store's lock

	mu    sync.Mutex
	done  map[memOp]int // operations by kind and key, with Nth 0
	count map[string]int
	down  bool
	hangs bool
}

// Handle returns a new view of the store.
func (s *memStore) Handle(name string, seed uint64, f memFaults) *memHandle {
	return &memHandle{Name: name, store: s, seed: seed, faults: f, done: map[memOp]int{}, count: map[string]int{}}
}

// SetDown makes all later operations fail, at once or only when their context
// ends. Requests that are under way arrive.
func (h *memHandle) SetDown(down, hangs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down, h.hangs = down, hangs
}

// Count returns how many operations of a kind were begun.
func (h *memHandle) Count(kind string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count[kind]
}

// PutOnce implements the store.
func (h *memHandle) PutOnce(ctx context.Context, key string, value []byte) ([]byte, error) {
	var stands []byte
	err := h.do(ctx, "put", key, func() { stands = h.store.Put(h, key, value) })
	if err != nil && err != errMemLost && err != errDown && ctx.Err() == nil {
		if there, found := h.store.Lookup(key); found { // a store that refuses new records still returns old ones
			return there, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return stands, nil
}

// Get implements the store.
func (h *memHandle) Get(ctx context.Context, key string) ([]byte, bool, error) {
	var value []byte
	var found bool
	err := h.do(ctx, "get", key, func() {
		h.store.mu.Lock()
		defer h.store.mu.Unlock()
		value, found = h.store.seen(h, key)
	})
	if err != nil {
		return nil, false, err
	}
	return value, found, nil
}

// List implements the store.
func (h *memHandle) List(ctx context.Context, dir string) ([]string, error) {
	var names []string
	err := h.do(ctx, "list", dir, func() {
		h.store.mu.Lock()
		defer h.store.mu.Unlock()
		for name := range h.store.dirs[dir] {
			if _, ok := h.store.seen(h, dir+"/"+name); ok {
				names = append(names, name)
			}
		}
		// Any order, but the same for a seed.
		slices.Sort(names)
		h.chance("order "+dir).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// Made implements agree.Records.
func (h *memHandle) Made(ctx context.Context, dir string) (made map[string]time.Time, err error) {
	err = h.do(ctx, "made", dir, func() {
		made = map[string]time.Time{}
		h.store.mu.Lock()
		defer h.store.mu.Unlock()
		for key, r := range h.store.records {
			if _, ok := h.store.seen(h, key); ok && strings.HasPrefix(key, dir+"/") {
				made[key] = r.at
			}
		}
	})
	return made, err
}

// Move implements the store.
func (h *memHandle) Move(ctx context.Context, from, to string) error {
	moved := false
	err := h.do(ctx, "move", to, func() { moved = h.store.Move(h, from, to) })
	if err == nil && !moved {
		err = ErrNoRecord
	}
	return err
}

// Mark implements the store.
func (h *memHandle) Mark(ctx context.Context, key string) (string, error) {
	mark := ""
	err := h.do(ctx, "mark", key, func() {
		h.store.mu.Lock()
		defer h.store.mu.Unlock()
		if _, ok := h.store.seen(h, key); ok {
			mark = strconv.FormatUint(h.store.records[key].nth, 10)
		}
	})
	if err != nil {
		return "", err
	}
	return mark, nil
}

// Remove implements the store.
func (h *memHandle) Remove(ctx context.Context, key string) error {
	return h.do(ctx, "remove", key, func() {
		for _, below := range append(h.store.Keys(key+"/"), key) {
			h.store.Delete(below)
		}
	})
}

// do runs act at the store after the request's delay, and returns after the reply's. If ctx ends first, act still runs,
// as a request that is under way. So act may only write to variables that are read after success.
func (h *memHandle) do(ctx context.Context, kind, key string, act func()) error {
	fate, down, hangs := h.fate(kind, key)
	if down {
		if hangs {
			<-ctx.Done()
		}
		// An error takes a moment too, or retries would stop the simulation's clock.
		return pause(ctx, fate.Reply+time.Millisecond, errDown)
	}
	landed := make(chan struct{})
	time.AfterFunc(fate.Request, func() {
		if !fate.Lost && fate.Err == nil {
			act()
		}
		close(landed)
	})
	select {
	case <-landed:
	case <-ctx.Done():
		return ctx.Err()
	}
	if fate.Err != nil {
		return pause(ctx, fate.Reply, fate.Err)
	}
	if fate.Lost || fate.ReplyLost {
		return pause(ctx, fate.Reply, errMemLost)
	}
	return pause(ctx, fate.Reply, nil)
}

// pause returns err after d, or ctx's error if that ends first.
func pause(ctx context.Context, d time.Duration, err error) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fate counts an operation and decides what becomes of it.
func (h *memHandle) fate(kind, key string) (f memFate, down, hangs bool) {
	h.mu.Lock()
	op := memOp{Kind: kind, Key: key}
	nth := h.done[op]
	h.done[op]++
	h.count[kind]++
	down, hangs = h.down, h.hangs
	h.mu.Unlock()
	op.Nth = nth
	f = h.draw(op)
	if h.Tamper != nil {
		f = h.Tamper(op, f)
	}
	return f, down, hangs
}
