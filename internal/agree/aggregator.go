package agree

import (
	"context"
	"maps"
	"slices"
	"time"
)

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
	listed   bool          // it was in the last listing of what is undecided
	vanished bool          // it was in the listing before that
	asked    time.Duration // when its decision was last asked for
	passed   bool          // all ranks of this node have acknowledged it, and so passed the changes before
	over     bool          // it is decided, or no rank of the communicator is on this node
	merged   []string      // the keys of the reports that were passed on
	barrier  bool          // ranks of this node have arrived
}

// askAnyway is after how many idle polls an aggregator asks for the decision of a change that is still
// listed as undecided.
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
			_, c.passed = a.passOn(ctx, c, c.comm.acks(c.k))
			c.barrier, _ = a.passOn(ctx, c, c.comm.arrivals(c.k))
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
	mirrored, err := a.list(ctx, a.node.local, undecided)
	if err != nil {
		return
	}
	names, err := a.list(ctx, a.node.shared, undecided)
	if err != nil {
		return
	}
	slices.Sort(names)
	isListed := func(name string) bool { _, found := slices.BinarySearch(names, name); return found }
	maps.DeleteFunc(a.changes, func(name string, c *nodeChange) bool {
		was := c.listed
		c.listed = isListed(name)
		c.vanished = was && !c.listed
		return c.over && !c.listed
	})
	for _, name := range mirrored { // before the others were listed
		if a.changes[name] == nil && !isListed(name) {
			// a leftover only takes space
			_ = a.bounded(ctx, func(ctx context.Context) error { return a.node.local.Remove(ctx, undecided+"/"+name) })
		}
	}
	for _, name := range names {
		c := a.changes[name]
		if c == nil {
			comm, k, ok := parseProposalName(name)
			if !ok {
				continue
			}
			c = &nodeChange{comm: comm, k: k, since: a.clock.Now(), asked: a.clock.Now(), listed: true}
			a.changes[name] = c
		} else if !idle {
			continue
		}
		if c.mirrored || c.over {
			continue
		}
		if !a.isConcerned(ctx, c.comm) {
			// A rank may just have joined, and its slot may not be mirrored yet.
			c.over = a.clock.Now()-c.since > JoinLimit
			continue
		}
		c.mirrored = a.put(ctx, a.node.local, c.comm.open(c.k), nil) == nil
	}
}

// isConcerned reports whether ranks of the communicator are on this node. A job has many
// communicators that are elsewhere.
func (a *aggregator) isConcerned(ctx context.Context, comm keys) bool {
	slots, err := a.list(ctx, a.node.local, comm.slots())
	return err == nil && len(slots) > 0
}

func (a *aggregator) list(ctx context.Context, s Store, dir string) (names []string, err error) {
	err = a.bounded(ctx, func(ctx context.Context) error { names, err = s.List(ctx, dir); return err })
	return names, err
}

func (a *aggregator) put(ctx context.Context, s Store, key string, value []byte) error {
	return a.bounded(ctx, func(ctx context.Context) error { _, err := s.PutOnce(ctx, key, value); return err })
}

// takeDecision mirrors the decisions of the communicator, and reports whether that of this change is
// among them. Earlier ones may have come between two looks. It also removes from the mirror what was
// removed from the shared store.
func (a *aggregator) takeDecision(ctx context.Context, c *nodeChange) (decided bool) {
	err := a.bounded(ctx, func(ctx context.Context) error {
		names, err := a.node.shared.List(ctx, c.comm.decisions())
		for _, name := range names {
			k, _, ok := parseDecision(name)
			if !ok || err != nil || k < c.k && c.passed {
				continue
			}
			err = a.node.mirrorDecision(ctx, c.comm.decisions()+"/"+name)
			decided = decided || k == c.k
		}
		if err == nil && decided && c.passed {
			a.removeHistory(ctx, c, names)
		}
		return err
	})
	if err != nil || !decided {
		return false
	}
	for _, key := range c.merged {
		// a leftover only takes space
		_ = a.bounded(ctx, func(ctx context.Context) error { return a.node.shared.Remove(ctx, key) })
	}
	_ = a.bounded(ctx, func(ctx context.Context) error { return a.node.local.Remove(ctx, c.comm.open(c.k)) })
	return true
}

// removeHistory removes from the mirror the changes before this one whose decisions are no longer in the shared
// store. All ranks of this node have passed them.
func (a *aggregator) removeHistory(ctx context.Context, c *nodeChange, there []string) {
	names, _ := a.node.local.List(ctx, c.comm.decisions()) // a leftover only takes space
	for _, name := range names {
		if k, _, ok := parseDecision(name); ok && k < c.k && !slices.Contains(there, name) {
			_ = a.node.local.Remove(ctx, c.comm.decisions()+"/"+name)
			_ = a.node.local.Drop(ctx, c.comm.acks(k))
			_ = a.node.local.Drop(ctx, c.comm.arrivals(k))
		}
	}
}

// passOn merges the reports of this node's ranks in dir into one record for each hash. It waits until all ranks
// have reported. some: at least one rank has reported. every: all have, and the records are in the shared store.
func (a *aggregator) passOn(ctx context.Context, c *nodeChange, dir string) (some, every bool) {
	slots, err := a.list(ctx, a.node.local, c.comm.slots())
	if err != nil {
		return false, false
	}
	names, err := a.list(ctx, a.node.local, dir)
	all, groups := map[int]bool{}, map[uint64][]int{}
	for _, name := range names {
		of, hash, _ := parseReportName(name)
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
		if a.put(ctx, a.node.shared, key, nil) == nil {
			c.merged = append(c.merged, key)
		} else {
			every = false
		}
	}
	return true, every
}
