package agree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// A NodeStore is the store of the ranks of one node in a job of many nodes. Without it each
// rank would poll the store that all nodes share. What may be read late is read from the
// node's own store, where the aggregator, one process of the node, mirrors it. Reports go
// to the node's own store, too, and the aggregator puts one for all ranks of equal hash.
// What makes a decision goes to the shared store itself, so that the mirror is never the
// truth. In the mirror a decision has its mark as value.
type NodeStore struct {
	shared, local Store
}

// NewNodeStore returns the store for the members of a node.
func NewNodeStore(shared, local Store) *NodeStore { return &NodeStore{shared, local} }

// mirrored reports whether a record is kept in the node's own store as well.
func mirrored(key string) bool {
	return strings.HasPrefix(key, "blob/") || strings.HasPrefix(key, proposals+"/") || strings.Contains(key, "/slot/")
}

// isReport reports whether a record is an ack or an arrival, which may be merged.
func isReport(key string) bool { return strings.Contains(key, "/a/") || strings.Contains(key, "/m/") }

func isDecision(key string) bool { return strings.Contains(key, "/d/") }

// PutOnce implements Store.
func (n *NodeStore) PutOnce(ctx context.Context, key string, value []byte) ([]byte, error) {
	if isReport(key) {
		return n.local.PutOnce(ctx, key, value)
	}
	stands, err := n.shared.PutOnce(ctx, key, value)
	if err == nil && mirrored(key) && (!strings.Contains(key, "/slot/") || string(stands) == string(value)) {
		// Only this node's slots belong there, since the aggregator waits for their
		// owners. A failure costs time only.
		_, _ = n.local.PutOnce(ctx, key, stands)
	}
	return stands, err
}

// Get implements Store.
func (n *NodeStore) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if mirrored(key) {
		value, found, err := n.local.Get(ctx, key)
		if err == nil && found {
			return value, true, nil
		}
	}
	return n.shared.Get(ctx, key)
}

// List implements Store. Decisions come from the mirror: reading them late is safe, and
// reading them often is what the mirror is for.
func (n *NodeStore) List(ctx context.Context, dir string) ([]string, error) {
	if dir == proposals || isDecision(dir+"/") {
		return n.local.List(ctx, dir)
	}
	return n.shared.List(ctx, dir)
}

// Mark implements Store.
func (n *NodeStore) Mark(ctx context.Context, key string) (string, error) {
	if isDecision(key) {
		mark, _, err := n.local.Get(ctx, key)
		return string(mark), err
	}
	return n.shared.Mark(ctx, key)
}

// Move implements Store. It mirrors the decision at once, the own or the one that was first.
// ErrNoRecord means that all decisions are in the mirror: a token without one is taken for
// a sign that records have vanished.
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
		err = notYet(key)
	}
	if err != nil {
		return err
	}
	_, err = n.local.PutOnce(ctx, key, []byte(mark))
	return err
}

// notYet is the error of a copy whose original was listed, but is not in sight yet.
func notYet(key string) error { return fmt.Errorf("%s is not there yet", key) }

// Remove implements Store.
func (n *NodeStore) Remove(ctx context.Context, key string) error {
	if isReport(key) {
		return n.local.Remove(ctx, key)
	}
	return n.shared.Remove(ctx, key)
}

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
	mirrored bool
	listed   bool // its proposal was in the last listing
	over     bool // it is decided, or no rank of the communicator is on this node
	// What was passed on: the slots, by the directory of their reports, and the keys.
	sent    map[string]map[int]bool
	merged  []string
	barrier bool // ranks of this node have arrived
}

// Aggregate is the work of one process for all ranks of the node, until ctx ends: it
// mirrors and merges. The caller makes sure that it is the only one, by a file lock, say; a
// second one would only cost time.
func (n *NodeStore) Aggregate(ctx context.Context, clock Clock, timing Timing) {
	a := &aggregator{node: n, clock: clock, timing: timing, changes: map[string]*nodeChange{}}
	var lastList time.Duration = -forever
	for ctx.Err() == nil {
		now := clock.Now()
		lists := now-lastList >= timing.IdlePoll || lastList < 0
		if lists {
			lastList = now
			a.findProposals(ctx)
		}
		wait := timing.IdlePoll
		for _, name := range slices.Sorted(maps.Keys(a.changes)) {
			c := a.changes[name]
			if !c.mirrored || c.over || !c.listed && !lists {
				continue
			}
			// Where the proposal has vanished its decision may still come, but is not waited for.
			if c.over = a.serve(ctx, c); c.over || !c.listed {
				continue
			}
			wait = min(wait, timing.ActivePoll)
			if c.barrier {
				wait = min(wait, timing.BarrierPoll)
			}
		}
		fired, stop := newTimer(clock, wait)
		select {
		case <-fired:
		case <-ctx.Done():
		}
		stop()
	}
}

// bounded runs one store operation for no longer than the timing allows.
func (a *aggregator) bounded(ctx context.Context, op func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer a.clock.AfterFunc(a.timing.OpLimit, cancel)()
	return op(ctx)
}

// findProposals mirrors new proposals, each after the blob that it names, and forgets those
// that are over and no longer there.
func (a *aggregator) findProposals(ctx context.Context) {
	var names []string
	err := a.bounded(ctx, func(ctx context.Context) (err error) {
		names, err = a.node.shared.List(ctx, proposals)
		return err
	})
	if err != nil {
		return
	}
	maps.DeleteFunc(a.changes, func(name string, c *nodeChange) bool {
		c.listed = slices.Contains(names, name)
		return c.over && !c.listed
	})
	slices.Sort(names)
	for _, name := range names {
		c := a.changes[name]
		if c == nil {
			comm, k, ok := parseProposalName(name)
			if !ok {
				continue
			}
			c = &nodeChange{comm: comm, k: k, since: a.clock.Now(), listed: true, sent: map[string]map[int]bool{}}
			a.changes[name] = c
		}
		if c.mirrored || c.over {
			continue
		}
		if !a.isConcerned(ctx, c.comm) {
			// A rank may just have joined, and its slot may not be mirrored yet.
			c.over = a.clock.Now()-c.since > JoinLimit
			continue
		}
		err := a.mirror(ctx, proposals+"/"+name, func(ctx context.Context, text []byte) error {
			p, err := decode[Proposal](text)
			if err != nil {
				return err
			}
			return a.mirror(ctx, blobKey(p.Content), nil)
		})
		c.mirrored = err == nil
	}
}

// isConcerned reports whether ranks of the communicator are on this node. A job has many
// communicators that are elsewhere.
func (a *aggregator) isConcerned(ctx context.Context, comm keys) bool {
	var slots []string
	err := a.bounded(ctx, func(ctx context.Context) (err error) {
		slots, err = a.node.local.List(ctx, comm.slots())
		return err
	})
	return err == nil && len(slots) > 0
}

// mirror copies a record into the node's own store, after first has succeeded with it.
func (a *aggregator) mirror(ctx context.Context, key string, first func(context.Context, []byte) error) error {
	var text []byte
	err := a.bounded(ctx, func(ctx context.Context) error {
		value, found, err := a.node.shared.Get(ctx, key)
		if err == nil && !found {
			err = notYet(key)
		}
		text = value
		return err
	})
	if err == nil && first != nil {
		err = first(ctx, text)
	}
	if err != nil {
		return err
	}
	return a.bounded(ctx, func(ctx context.Context) error {
		_, err := a.node.local.PutOnce(ctx, key, text)
		return err
	})
}

// serve passes on the reports of one change, until it is decided.
func (a *aggregator) serve(ctx context.Context, c *nodeChange) (decided bool) {
	if a.isDecided(ctx, c) {
		for _, key := range c.merged {
			_ = a.bounded(ctx, func(ctx context.Context) error { return a.node.shared.Remove(ctx, key) }) // what stays takes room only
		}
		return true
	}
	a.passOn(ctx, c, c.comm.acks(c.k))
	c.barrier = a.passOn(ctx, c, c.comm.arrivals(c.k))
	return false
}

// isDecided mirrors the decision, if there is one.
func (a *aggregator) isDecided(ctx context.Context, c *nodeChange) bool {
	var names []string
	if err := a.bounded(ctx, func(ctx context.Context) (err error) {
		names, err = a.node.shared.List(ctx, c.comm.decisions())
		return err
	}); err != nil {
		return false
	}
	for _, name := range names {
		if k, _, ok := parseDecision(name); ok && k == c.k {
			err := a.bounded(ctx, func(ctx context.Context) error {
				return a.node.mirrorDecision(ctx, c.comm.decisions()+"/"+name)
			})
			return err == nil
		}
	}
	return false
}

// passOn merges the reports that the ranks of this node have put in dir, once all have: one
// record for all is worth the wait. It reports whether any has.
func (a *aggregator) passOn(ctx context.Context, c *nodeChange, dir string) (any bool) {
	var slots, names []string
	err := a.bounded(ctx, func(ctx context.Context) (err error) {
		if slots, err = a.node.local.List(ctx, c.comm.slots()); err == nil {
			names, err = a.node.local.List(ctx, dir)
		}
		return err
	})
	if err != nil {
		return false
	}
	sent := c.sent[dir]
	if sent == nil {
		sent = map[int]bool{}
		c.sent[dir] = sent
	}
	all := map[int]bool{}
	groups := map[uint64][]int{}
	for _, name := range names {
		of, hash, ok := parseReportName(name)
		if !ok {
			continue
		}
		for _, slot := range of {
			if !all[slot] && !sent[slot] {
				groups[hash] = append(groups[hash], slot)
			}
			all[slot] = true
		}
	}
	if len(all) < len(slots) {
		return len(all) > 0
	}
	for _, hash := range slices.Sorted(maps.Keys(groups)) {
		of := groups[hash]
		slices.Sort(of)
		key := dir + "/" + reportName(hash, of)
		err := a.bounded(ctx, func(ctx context.Context) error {
			_, err := a.node.shared.PutOnce(ctx, key, nil)
			return err
		})
		if err != nil {
			continue
		}
		c.merged = append(c.merged, key)
		for _, slot := range of {
			sent[slot] = true
		}
	}
	return len(all) > 0
}
