package livejobs

import (
	"context"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
)

// garbage is a store of records of which some are of no use.
type garbage struct {
	store     *dirstore.Store
	inspector *agree.Inspector
	stays     bool // nothing is removed
}

func (g garbage) remove(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := g.store.Remove(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// communicator removes the records of a communicator that has ended. Those of its members go last: they tell that it
// has, should this be cut short.
func (g garbage) communicator(c *Communicator) error {
	ctx, end := context.WithTimeout(context.Background(), lookLimit)
	defer end()
	if g.stays {
		return nil
	}
	var keys []string
	for _, key := range c.Keys {
		if !key.IsMembership() {
			keys = append(keys, key.String())
		}
	}
	if err := g.remove(ctx, keys...); err != nil {
		return err
	}
	return g.store.Remove(ctx, agree.CommsDir+"/"+c.Key)
}

// older returns the keys of the records in a directory that were made so long ago.
func (g garbage) older(ctx context.Context, dir string, than time.Duration) (keys []string, err error) {
	made, err := g.store.Made(ctx, dir)
	for key, at := range made {
		if time.Since(at) >= than {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// ended removes what is left of communicators that have removed their own records: one record each, which says that
// their id was used. Nobody needs it unless the id is used again.
func (g garbage) ended(than time.Duration) (removed int, err error) {
	ctx, end := context.WithTimeout(context.Background(), lookLimit)
	defer end()
	keys, err := g.older(ctx, agree.EndedDir, than)
	if err == nil && !g.stays {
		err = g.remove(ctx, keys...)
	}
	return len(keys), err
}

// minVersionAge is the age from which on nobody needs a version that no record names. A rank records first the version
// and then what names it, within moments.
const minVersionAge = time.Hour

// versions removes the contents of versions when no communicator is left.
func (g garbage) versions() (removed int, err error) {
	ctx, end := context.WithTimeout(context.Background(), lookLimit)
	defer end()
	keys, err := g.older(ctx, agree.VersionDir, minVersionAge)
	if err != nil || g.stays || len(keys) == 0 {
		return len(keys), err
	}
	gone := map[string][]byte{}
	for _, key := range keys {
		content, found, err := g.store.Get(ctx, key)
		if err == nil && found {
			gone[key] = content
			err = g.remove(ctx, key)
		}
		if err != nil {
			return 0, err
		}
	}
	// A communicator that has just begun may name a version that was there already. Its ranks look for it again and
	// again, so put it back.
	now, err := g.inspector.Communicators(ctx)
	for _, c := range now {
		for _, v := range c.Versions() {
			if content, was := gone[v.Key()]; was && err == nil {
				_, err = g.store.PutOnce(ctx, v.Key(), content)
				delete(gone, v.Key())
			}
		}
	}
	return len(gone), err
}
