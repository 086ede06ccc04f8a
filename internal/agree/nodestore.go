package agree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"
)

// A NodeStore is the store of the ranks of one node in a job of many nodes. Without it each rank would poll
// the store that all nodes share. With it the ranks poll a mirror, the node's own store, and one process of the
// node, the aggregator, polls the shared store for all of them.
//
//	record             is put into                  and copied
//	ack, arrival       the mirror, by a rank        to the shared store by the aggregator: one for each hash
//	open               the shared store             to the mirror by that rank; on other nodes by the aggregator
//	slot, left         the shared store             to the mirror by the rank that puts it
//	decision           the shared store, by Move    to the mirror, likewise; its value there is its mark
//	any other          the shared store             no
//
// Invariant: what decides is put or moved in the shared store itself. So a mirror that is late or lost costs time, and
// never the agreement.
type NodeStore struct {
	shared, local Store
}

// NewNodeStore returns the store for the members of a node.
func NewNodeStore(shared, local Store) *NodeStore { return &NodeStore{shared, local} }

// mirrored reports whether a record is in the mirror as well, with the same value.
func (k Key) mirrored() bool { return k.kind == kindOpen || k.IsMembership() }

// PutOnce implements Store.
func (n *NodeStore) PutOnce(ctx context.Context, key string, value []byte) ([]byte, error) {
	k, _ := ParseKey(key)
	if k.isReport() {
		return n.local.PutOnce(ctx, key, value)
	}
	stands, err := n.shared.PutOnce(ctx, key, value)
	if err == nil && k.mirrored() && (k.kind != kindSlot || string(stands) == string(value)) {
		// A slot that another rank has claimed first may be another node's. It does not belong there, since the
		// aggregator waits for the owners of all slots in the mirror. A failure costs time only.
		_, _ = n.local.PutOnce(ctx, key, stands)
		if comm := keys(k.Comm); k.kind == kindLeft && n.haveLeft(ctx, comm) {
			_ = n.local.Remove(ctx, comm.all()) // a leftover only takes space
		}
	}
	return stands, err
}

// haveLeft reports whether all ranks of this node have left the communicator.
func (n *NodeStore) haveLeft(ctx context.Context, comm keys) bool {
	slots, err := n.local.List(ctx, comm.dir(kindSlot))
	left, err2 := n.local.List(ctx, comm.dir(kindLeft))
	return err == nil && err2 == nil && len(left) >= len(slots)
}

// Get implements Store.
func (n *NodeStore) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if k, _ := ParseKey(key); k.mirrored() {
		value, found, err := n.local.Get(ctx, key)
		if err == nil && found {
			return value, true, nil
		}
	}
	return n.shared.Get(ctx, key)
}

// List implements Store. Decisions come from the mirror. Reading them late is safe, and the mirror exists
// because ranks read them often. Once all ranks of the node have left, the last one lists who has left in the
// shared store.
func (n *NodeStore) List(ctx context.Context, dir string) ([]string, error) {
	switch k, _ := ParseKey(dir); {
	case k.kind == kindOpen, k.kind == kindDecision, k.kind == kindLeft && !n.haveLeft(ctx, keys(k.Comm)):
		return n.local.List(ctx, dir)
	}
	return n.shared.List(ctx, dir)
}

// Mark implements Store.
func (n *NodeStore) Mark(ctx context.Context, key string) (string, error) {
	if k, _ := ParseKey(key); k.kind == kindDecision {
		mark, _, err := n.local.Get(ctx, key)
		return string(mark), err
	}
	return n.shared.Mark(ctx, key)
}

// Move implements Store. What moves is the token of a proposal, to the key of its decision, and the decision is
// mirrored at once. ErrNoRecord means that the token is gone, so another rank has decided. Before it is returned, all
// decisions are mirrored: the caller would take a token that is gone without a decision for a loss of records.
func (n *NodeStore) Move(ctx context.Context, from, to string) error {
	err := n.shared.Move(ctx, from, to)
	if err == nil {
		_ = n.mirrorDecision(ctx, to) // else the aggregator mirrors it
	}
	if !errors.Is(err, ErrNoRecord) {
		return err
	}
	dir := path.Dir(to)
	names, listErr := n.shared.List(ctx, dir)
	if listErr != nil {
		return listErr
	}
	for _, name := range names {
		if mirrorErr := n.mirrorDecision(ctx, path.Join(dir, name)); mirrorErr != nil {
			return mirrorErr
		}
	}
	return err
}

// mirrorDecision copies a decision to the node's own store.
func (n *NodeStore) mirrorDecision(ctx context.Context, key string) error {
	mark, err := n.shared.Mark(ctx, key)
	if err == nil && mark == "" {
		err = fmt.Errorf("%s was listed, but is not in sight yet", key)
	}
	if err != nil {
		return err
	}
	_, err = n.local.PutOnce(ctx, key, []byte(mark))
	return err
}

// Remove implements Store.
func (n *NodeStore) Remove(ctx context.Context, key string) error {
	err := n.local.Remove(ctx, key) // a leftover only takes space
	if k, ok := ParseKey(key); ok && k.isReport() {
		return err
	}
	return n.shared.Remove(ctx, key)
}

// aggregator is the state of Aggregate, for its one goroutine.
type aggregator struct {
	node    *NodeStore
	clock   Clock
	timing  Timing
	changes map[string]*nodeChange // by the name of the proposal
}

// nodeChange is what the aggregator knows of a proposal.
type nodeChange struct {
	comm     keys
	k        uint64
	since    time.Duration // when it was first listed
	mirrored bool          // its kindOpen is in the mirror, so this node's ranks see it
	listed   bool          // its kindOpen was in the last listing of the shared store: it may be undecided
	vanished bool          // it was in the listing before, and not in the last
	asked    time.Duration // when its decision was last asked for
	passed   bool          // all ranks of this node have acknowledged it, and so passed the changes before
	over     bool          // it is decided, or no rank of the communicator is on this node
	merged   []string      // the keys of the reports that were passed on
	barrier  bool          // ranks of this node have arrived
}

// askAnyway is the number of idle polls after which the aggregator asks for the decision of a change that is still
// listed as undecided: the rank that decided may have failed to remove kindOpen.
const askAnyway = 4

// Aggregate is the work of one process for all ranks of the node, until ctx ends: it
// mirrors and merges. The caller makes sure that it is the only one, by a file lock, say; a
// second one would only cost time.
func (n *NodeStore) Aggregate(ctx context.Context, clock Clock, timing Timing) {
	a := &aggregator{node: n, clock: clock, timing: timing, changes: map[string]*nodeChange{}}
	nextIdle := clock.Now()
	for ctx.Err() == nil {
		now := clock.Now()
		idle := now >= nextIdle
		if idle {
			nextIdle = now + timing.IdlePoll
		}
		a.findProposals(ctx, idle)
		wait := timing.IdlePoll
		for _, name := range slices.Sorted(maps.Keys(a.changes)) {
			c := a.changes[name]
			if !c.mirrored || c.over {
				continue
			}
			// A decision removes the change from the listing of undecided ones. That removal may have failed,
			// so the aggregator also asks now and then.
			if c.vanished || idle && now-c.asked >= askAnyway*timing.IdlePoll {
				c.asked = now
				c.over = a.takeDecision(ctx, c)
			}
			if c.over || !c.listed {
				continue
			}
			_, c.passed = a.passOn(ctx, c, kindAck)
			c.barrier, _ = a.passOn(ctx, c, kindArrival)
			wait = min(wait, timing.ActivePoll)
			if c.barrier {
				wait = min(wait, timing.BarrierPoll)
			}
		}
		sleep(ctx, clock, wait, nil)
	}
}

// bounded runs one store operation for no longer than the timing allows.
func (a *aggregator) bounded(ctx context.Context, op func(context.Context) error) error {
	ctx, end := withLimit(ctx, a.clock, a.timing.OpLimit)
	defer end()
	return op(ctx)
}

// findProposals mirrors the records that announce new proposals, and forgets the proposals that are over and
// no longer there. Only now and then does it ask again whether a proposal of other nodes concerns this one.
func (a *aggregator) findProposals(ctx context.Context, idle bool) {
	mirrored, err := a.list(ctx, a.node.local, string(kindOpen))
	if err != nil {
		return
	}
	open, err := a.list(ctx, a.node.shared, string(kindOpen))
	if err != nil {
		return
	}
	isOpen := map[string]bool{}
	for _, key := range open {
		isOpen[key.name] = true
	}
	maps.DeleteFunc(a.changes, func(name string, c *nodeChange) bool {
		was := c.listed
		c.listed = isOpen[name]
		c.vanished = was && !c.listed
		return c.over && !c.listed
	})
	for _, key := range mirrored { // listed before the shared ones: what is missing there is decided, not new
		if a.changes[key.name] == nil && !isOpen[key.name] {
			a.remove(ctx, a.node.local, key.text)
		}
	}
	for _, key := range open {
		c := a.changes[key.name]
		if c == nil {
			now := a.clock.Now()
			c = &nodeChange{comm: keys(key.Comm), k: key.number, since: now, asked: now, listed: true}
			a.changes[key.name] = c
		} else if !idle {
			continue
		}
		if c.mirrored || c.over {
			continue
		}
		if slots, err := a.list(ctx, a.node.local, c.comm.dir(kindSlot)); err != nil || len(slots) == 0 {
			// A job has many communicators that are elsewhere. But a rank may just have joined, and its slot may not
			// be mirrored yet.
			c.over = a.clock.Now()-c.since > JoinLimit
			continue
		}
		c.mirrored = a.put(ctx, a.node.local, key.text) == nil
	}
}

func (a *aggregator) list(ctx context.Context, s Store, dir string) (all []Key, err error) {
	err = a.bounded(ctx, func(ctx context.Context) error { all, err = listKeys(ctx, s, dir); return err })
	return all, err
}

func (a *aggregator) put(ctx context.Context, s Store, key string) error {
	return a.bounded(ctx, func(ctx context.Context) error { _, err := s.PutOnce(ctx, key, nil); return err })
}

// remove tries once: a leftover only takes space.
func (a *aggregator) remove(ctx context.Context, s Store, key string) {
	_ = a.bounded(ctx, func(ctx context.Context) error { return s.Remove(ctx, key) })
}

// takeDecision mirrors the decisions of the communicator, and reports whether that of this change is
// among them. Earlier ones may have come between two looks. It also removes from the mirror what was
// removed from the shared store.
func (a *aggregator) takeDecision(ctx context.Context, c *nodeChange) (decided bool) {
	err := a.bounded(ctx, func(ctx context.Context) error {
		decisions, err := listKeys(ctx, a.node.shared, c.comm.dir(kindDecision))
		for _, key := range decisions {
			if err != nil || key.number < c.k && c.passed {
				continue
			}
			err = a.node.mirrorDecision(ctx, key.text)
			decided = decided || key.number == c.k
		}
		if err == nil && decided && c.passed {
			a.removeHistory(ctx, c, decisions)
		}
		return err
	})
	if err != nil || !decided {
		return false
	}
	for _, key := range c.merged {
		a.remove(ctx, a.node.shared, key)
	}
	a.remove(ctx, a.node.local, c.comm.open(c.k))
	return true
}

// removeHistory removes from the mirror the changes before this one whose decisions are no longer in the shared
// store. All ranks of this node have passed them.
func (a *aggregator) removeHistory(ctx context.Context, c *nodeChange, there []Key) {
	mirrored, _ := listKeys(ctx, a.node.local, c.comm.dir(kindDecision)) // a leftover only takes space
	for _, key := range mirrored {
		if k := key.number; k < c.k && !slices.Contains(there, key) {
			for _, gone := range []string{key.text, c.comm.of(kindAck, k), c.comm.of(kindArrival, k)} {
				_ = a.node.local.Remove(ctx, gone)
			}
		}
	}
}

// passOn merges the reports of this node's ranks into one record for each hash. It waits until all ranks
// have reported. some: at least one rank has reported. every: all have, and the records are in the shared store.
func (a *aggregator) passOn(ctx context.Context, c *nodeChange, report kind) (some, every bool) {
	slots, err := a.list(ctx, a.node.local, c.comm.dir(kindSlot))
	if err != nil {
		return false, false
	}
	dir := c.comm.of(report, c.k)
	reports, err := a.list(ctx, a.node.local, dir)
	all, groups := map[int]bool{}, map[uint64][]int{}
	for _, key := range reports {
		of, hash, _ := key.report()
		for _, slot := range of {
			if !all[slot] {
				groups[hash] = append(groups[hash], slot)
			}
			all[slot] = true
		}
	}
	if err != nil || len(slots) == 0 || len(all) < len(slots) {
		return len(all) > 0, false
	}
	every = true
	for _, hash := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[hash])
		key := dir + "/" + reportName(hash, groups[hash])
		if slices.Contains(c.merged, key) {
			continue
		}
		if a.put(ctx, a.node.shared, key) == nil {
			c.merged = append(c.merged, key)
		} else {
			every = false
		}
	}
	return true, every
}
