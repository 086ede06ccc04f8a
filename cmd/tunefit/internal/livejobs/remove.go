package livejobs

import (
	"context"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
)

// removeComm removes the records of a communicator that has ended. The slots go last:
// they tell that it has, should this be cut short.
func removeComm(store *dirstore.Store, c *Communicator) error {
	ctx, end := context.WithTimeout(context.Background(), lookLimit)
	defer end()
	for _, key := range c.Keys {
		if key.IsMembership() {
			continue
		}
		if err := store.Remove(ctx, key.String()); err != nil {
			return err
		}
	}
	return store.Drop(ctx, agree.CommsDir+"/"+c.Key)
}

// removeEnded removes what is left of communicators that have removed their own records: one record each, which says
// that their id was used. Nobody needs it unless the id is used again.
func (f *Cleanup) removeEnded(store *dirstore.Store) (removed int, err error) {
	ctx, end := context.WithTimeout(context.Background(), lookLimit)
	defer end()
	ended, err := store.Made(ctx, agree.EndedDir)
	if err != nil {
		return 0, err
	}
	for key, made := range ended {
		if time.Since(made) < f.OlderThan {
			continue
		}
		removed++
		if f.DryRun {
			continue
		}
		if err := store.Remove(ctx, key); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// minVersionAge is the age from which on nobody needs a version that no record names. A rank records first the version
// and then what names it, within moments.
const minVersionAge = time.Hour

// removeVersions removes the contents of versions when no communicator is left.
func (f *Cleanup) removeVersions(store *dirstore.Store, inspector *agree.Inspector) (removed int, err error) {
	ctx, end := context.WithTimeout(context.Background(), lookLimit)
	defer end()
	versions, err := store.Made(ctx, agree.VersionDir)
	if err != nil {
		return 0, err
	}
	gone := map[string][]byte{}
	for key, made := range versions {
		if time.Since(made) < minVersionAge {
			continue
		}
		removed++
		if f.DryRun {
			continue
		}
		content, found, err := store.Get(ctx, key)
		if err == nil && found {
			gone[key] = content
			err = store.Remove(ctx, key)
		}
		if err != nil {
			return removed, err
		}
	}
	if len(gone) == 0 {
		return removed, nil
	}
	// A communicator that has just begun may name a version that was there already. Its
	// ranks look for it again and again, so put it back.
	now, err := inspector.Communicators(ctx)
	if err != nil {
		return removed, err
	}
	for _, c := range now {
		for _, v := range c.Versions() {
			if content, was := gone[v.Key()]; was {
				if _, err := store.PutOnce(ctx, v.Key(), content); err != nil {
					return removed, err
				}
				delete(gone, v.Key())
				removed--
			}
		}
	}
	return removed, nil
}
