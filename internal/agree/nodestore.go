package agree

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
)

// A NodeStore is the store of the ranks of one node in a job of many nodes. Without it each rank would poll
// the store that all nodes share. One process of the node is the aggregator. It copies what ranks look for again
// and again into a mirror, the node's own store. The ranks put their reports into the mirror, and the
// aggregator puts one merged report for all ranks of equal hash into the shared store. Operations that make a
// decision go to the shared store itself, so the mirror decides nothing. In the mirror the value of a
// decision is its mark.
type NodeStore struct {
	shared, local Store
}

// NewNodeStore returns the store for the members of a node.
func NewNodeStore(shared, local Store) *NodeStore { return &NodeStore{shared, local} }

// mirrored reports whether a record is kept in the node's own store as well.
func mirrored(key string) bool {
	return strings.HasPrefix(key, undecided+"/") || strings.Contains(key, "/slot/") || isLeft(key)
}

// isLeft reports whether a record says that a rank has left.
func isLeft(key string) bool { return strings.Contains(key, "/left/") }

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
		if dir := path.Dir(path.Dir(key)); isLeft(key) && n.haveLeft(ctx, dir) {
			_ = n.local.Drop(ctx, dir) // a leftover only takes space
		}
	}
	return stands, err
}

// haveLeft reports whether all ranks of this node have left the communicator whose records are
// below dir.
func (n *NodeStore) haveLeft(ctx context.Context, dir string) bool {
	slots, err := n.local.List(ctx, dir+"/slot")
	lefts, err2 := n.local.List(ctx, dir+"/left")
	return err == nil && err2 == nil && len(lefts) >= len(slots)
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

// List implements Store. Decisions come from the mirror. Reading them late is safe, and the mirror exists
// because ranks read them often. Once all ranks of the node have left, the last one lists who has left in the
// shared store.
func (n *NodeStore) List(ctx context.Context, dir string) ([]string, error) {
	if dir == undecided || isDecision(dir+"/") || isLeft(dir+"/") && !n.haveLeft(ctx, path.Dir(dir)) {
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

// Move implements Store. It mirrors the decision at once, whether it is this one or an earlier one.
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
	if isReport(key) {
		return n.local.Remove(ctx, key)
	}
	if mirrored(key) || isDecision(key) {
		_ = n.local.Remove(ctx, key) // a leftover only takes space
	}
	return n.shared.Remove(ctx, key)
}

// Drop implements Store.
func (n *NodeStore) Drop(ctx context.Context, dir string) error {
	_ = n.local.Drop(ctx, dir) // a leftover only takes space
	return n.shared.Drop(ctx, dir)
}
