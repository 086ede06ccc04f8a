package agree

// What the protocol needs of a rendezvous. All safety rests on two operations: of several puts under a key only the
// first counts, and of several moves of a record only one. Listings and reads may be outdated. dirstore and etcdstore
// implement Store; storetest.Contract tests an implementation.

import (
	"context"
	"errors"
	"time"
)

// ErrRefused means that this put has not made a record and never will. After any other error the put may
// still make one.
var ErrRefused = errors.New("the rendezvous takes no records")

// ErrNoRecord means that there is nothing under a key that could be moved.
var ErrNoRecord = errors.New("there is no such record")

// A Store holds the records that the ranks of a job share. The value of a record never changes;
// Move changes its key. Keys are paths of lower-case letters, digits, '.', '-' and '/'.
//
// Every method may fail at any time, must return soon after ctx ends, and may be
// called by several goroutines at once.
type Store interface {
	// PutOnce creates the record unless it exists, and returns the value that stands:
	// this one, or that of an earlier put. After an error the put may have landed, or may
	// land at any later time.
	PutOnce(ctx context.Context, key string, value []byte) (stands []byte, err error)

	// Get returns the record; found is false where there is none. Absence is only a hint,
	// because the view may be outdated. Presence is certain.
	Get(ctx context.Context, key string) (value []byte, found bool, err error)

	// List returns the last path element of each record directly under dir, in
	// any order. Like Get it may miss records that exist.
	List(ctx context.Context, dir string) (names []string, err error)

	// Move gives a record another key, under which there is no record. Only one of several moves of a record
	// takes effect. ErrNoRecord means that this move has not taken effect and never will, or that it repeats
	// one that has. Any other error leaves open which.
	Move(ctx context.Context, from, to string) error

	// Mark returns a name of the record that no other record has or will have, even one with the same key and
	// value, and that Move does not change; "" if there is no record. It shows that a store was restored from a copy.
	Mark(ctx context.Context, key string) (mark string, err error)

	// Remove deletes a record, and all records below it as a folder, in any order. Nobody will look for them again or
	// put any there.
	Remove(ctx context.Context, key string) error
}

// Records is a store as seen by a tool that is no rank.
type Records interface {
	// Made returns the keys of all records below dir and when each was made. The time is zero if the store
	// does not know it.
	Made(ctx context.Context, dir string) (map[string]time.Time, error)
	// Get is that of Store.
	Get(ctx context.Context, key string) (value []byte, found bool, err error)
}
