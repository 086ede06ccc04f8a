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

// A Node is the store of the ranks of one machine in a job of many machines. What
// may be read late is read from the machine's own store, where one process, the
// leader, mirrors it; acknowledgements go there too, and the leader passes on one
// for all ranks of equal hash. What makes a decision goes to the upper store
// itself, so that the mirror is a cache and never the truth. Decisions lie in the
// mirror with their marks as values.
type Node struct {
	upper, local Store
}

// NewNode returns the store for the members of a machine.
func NewNode(upper, local Store) *Node { return &Node{upper, local} }

// mirrored reports whether a record is kept in the machine's store as well.
func mirrored(key string) bool {
	return strings.HasPrefix(key, "blob/") || strings.HasPrefix(key, proposals+"/") || strings.Contains(key, "/slot/")
}

// isAck reports whether a record is one that each rank puts, and that may be merged.
func isAck(key string) bool { return strings.Contains(key, "/a/") || strings.Contains(key, "/m/") }

func isDecision(key string) bool { return strings.Contains(key, "/d/") }

// PutOnce implements Store.
func (n *Node) PutOnce(ctx context.Context, key string, value []byte) ([]byte, error) {
	if isAck(key) {
		return n.local.PutOnce(ctx, key, value)
	}
	stands, err := n.upper.PutOnce(ctx, key, value)
	if err == nil && mirrored(key) && (!strings.Contains(key, "/slot/") || string(stands) == string(value)) {
		// Only this machine's slots belong there; the leader waits for them. A
		// failure costs time only.
		n.local.PutOnce(ctx, key, stands)
	}
	return stands, err
}

// Get implements Store.
func (n *Node) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if mirrored(key) {
		value, found, err := n.local.Get(ctx, key)
		if err == nil && found {
			return value, true, nil
		}
	}
	return n.upper.Get(ctx, key)
}

// List implements Store. Decisions are those of the mirror: learning them late is
// safe, asking for them often is what this is to save.
func (n *Node) List(ctx context.Context, dir string) ([]string, error) {
	if dir == proposals || isDecision(dir+"/") {
		return n.local.List(ctx, dir)
	}
	return n.upper.List(ctx, dir)
}

// Mark implements Store.
func (n *Node) Mark(ctx context.Context, key string) (string, error) {
	if isDecision(key) {
		mark, _, err := n.local.Get(ctx, key)
		return string(mark), err
	}
	return n.upper.Mark(ctx, key)
}

// Move implements Store. The leader mirrors what comes of it.
func (n *Node) Move(ctx context.Context, from, to string) error {
	err := n.upper.Move(ctx, from, to)
	if err == nil {
		n.mirrorDecision(ctx, to)
	} else if errors.Is(err, ErrNoRecord) {
		dir, _ := path.Split(to)
		names, _ := n.upper.List(ctx, strings.TrimSuffix(dir, "/"))
		for _, name := range names {
			n.mirrorDecision(ctx, dir+name)
		}
	}
	return err
}

// mirrorDecision copies a decision to the machine's store.
func (n *Node) mirrorDecision(ctx context.Context, key string) error {
	mark, err := n.upper.Mark(ctx, key)
	if err == nil && mark != "" {
		_, err = n.local.PutOnce(ctx, key, []byte(mark))
	}
	return err
}

// Remove implements Store.
func (n *Node) Remove(ctx context.Context, key string) error {
	if isAck(key) {
		return n.local.Remove(ctx, key)
	}
	return n.upper.Remove(ctx, key)
}

type leader struct {
	node   *Node
	clock  Clock
	timing Timing
	open   map[string]*openChange // by the name of the proposal
}

type openChange struct {
	comm keys
	k    uint64
	// What was passed on: the slots, by the directory of their records, and the keys.
	sent   map[string]map[int]bool
	merged []string
	meets  bool // ranks of this machine stand
}

// Lead does the work of one process for all ranks of the machine until ctx ends:
// it mirrors and merges. A file lock, say, makes it the only one; a second leader
// would only cost time.
func (n *Node) Lead(ctx context.Context, clock Clock, timing Timing) {
	l := &leader{node: n, clock: clock, timing: timing, open: map[string]*openChange{}}
	done := map[string]bool{}
	var lastList time.Duration = -forever
	for ctx.Err() == nil {
		if now := clock.Now(); now-lastList >= timing.IdlePoll || lastList < 0 {
			lastList = now
			l.findProposals(ctx, done)
		}
		for _, name := range slices.Sorted(maps.Keys(l.open)) {
			if l.serve(ctx, l.open[name]) {
				delete(l.open, name)
				done[name] = true
			}
		}
		wait := timing.IdlePoll
		for _, c := range l.open {
			wait = min(wait, timing.ActivePoll)
			if c.meets {
				wait = min(wait, timing.MeetPoll)
			}
		}
		rings, stop := alarm(clock, wait)
		select {
		case <-rings:
		case <-ctx.Done():
		}
		stop()
	}
}

// bounded runs one store operation for no longer than the timing allows.
func (l *leader) bounded(ctx context.Context, op func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.clock.AfterFunc(l.timing.OpLimit, cancel)()
	return op(ctx)
}

// findProposals mirrors new proposals, each after the blob that it names.
func (l *leader) findProposals(ctx context.Context, done map[string]bool) {
	var names []string
	l.bounded(ctx, func(ctx context.Context) (err error) {
		names, err = l.node.upper.List(ctx, proposals)
		return err
	})
	slices.Sort(names)
	for _, name := range names {
		comm, k, ok := parseProposalName(name)
		if !ok || done[name] || l.open[name] != nil || !l.concerned(ctx, comm) {
			continue
		}
		err := l.mirror(ctx, proposals+"/"+name, func(ctx context.Context, text []byte) error {
			p, err := decode[Proposal](text)
			if err != nil {
				return err
			}
			return l.mirror(ctx, blobKey(p.Content), nil)
		})
		if err == nil {
			l.open[name] = &openChange{comm: comm, k: k, sent: map[string]map[int]bool{}}
		}
	}
}

// concerned reports whether ranks of the communicator are on this machine. A job
// has many communicators that lie elsewhere.
func (l *leader) concerned(ctx context.Context, comm keys) bool {
	var slots []string
	l.bounded(ctx, func(ctx context.Context) (err error) {
		slots, err = l.node.local.List(ctx, comm.slots())
		return err
	})
	return len(slots) > 0
}

// mirror copies a record into the machine's store, after what first does with it.
func (l *leader) mirror(ctx context.Context, key string, first func(context.Context, []byte) error) error {
	var text []byte
	err := l.bounded(ctx, func(ctx context.Context) error {
		value, found, err := l.node.upper.Get(ctx, key)
		if err == nil && !found {
			err = fmt.Errorf("%s is not there yet", key)
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
	return l.bounded(ctx, func(ctx context.Context) error {
		_, err := l.node.local.PutOnce(ctx, key, text)
		return err
	})
}

// serve looks after one change until it is decided.
func (l *leader) serve(ctx context.Context, c *openChange) (decided bool) {
	if l.isDecided(ctx, c) {
		for _, key := range c.merged {
			l.bounded(ctx, func(ctx context.Context) error { return l.node.upper.Remove(ctx, key) })
		}
		return true
	}
	l.passOn(ctx, c, c.comm.acks(c.k))
	c.meets = l.passOn(ctx, c, c.comm.mets(c.k))
	return false
}

// isDecided mirrors the decision, if there is one.
func (l *leader) isDecided(ctx context.Context, c *openChange) bool {
	var names []string
	l.bounded(ctx, func(ctx context.Context) (err error) {
		names, err = l.node.upper.List(ctx, c.comm.decisions())
		return err
	})
	for _, name := range names {
		if k, _, ok := parseDecision(name); ok && k == c.k {
			err := l.bounded(ctx, func(ctx context.Context) error {
				return l.node.mirrorDecision(ctx, c.comm.decisions()+"/"+name)
			})
			return err == nil
		}
	}
	return false
}

// passOn merges what the ranks of this machine have put in dir, once all have: one
// record for all is worth the wait. It reports whether any has.
func (l *leader) passOn(ctx context.Context, c *openChange, dir string) (any bool) {
	var slots, names []string
	err := l.bounded(ctx, func(ctx context.Context) (err error) {
		if slots, err = l.node.local.List(ctx, c.comm.slots()); err == nil {
			names, err = l.node.local.List(ctx, dir)
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
		of, hash, ok := parseAckName(name)
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
		key := dir + "/" + ackName(hash, of)
		err := l.bounded(ctx, func(ctx context.Context) error {
			_, err := l.node.upper.PutOnce(ctx, key, nil)
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
