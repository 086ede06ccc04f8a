package livejobs

import (
	"context"
	"maps"
	"slices"
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
	ended, err := older(ctx, store, agree.EndedDir, f.OlderThan)
	if err != nil || f.DryRun {
		return len(ended), err
	}
	for _, key := range ended {
		if err := store.Remove(ctx, key); err != nil {
			return 0, err
		}
	}
	return len(ended), nil
}

// older returns the keys of the records in a directory that were made so long ago.
func older(ctx context.Context, store *dirstore.Store, dir string, than time.Duration) ([]string, error) {
	made, err := store.Made(ctx, dir)
	maps.DeleteFunc(made, func(_ string, at time.Time) bool { return time.Since(at) < than })
	return slices.Collect(maps.Keys(made)), err
}

// minVersionAge is the age from which on nobody needs a version that no record names. A rank records first the version
// and then what names it, within moments.
const minVersionAge = time.Hour

// removeVersions removes the contents of versions when no communicator is left.
func (f *Cleanup) removeVersions(store *dirstore.Store, inspector *agree.Inspector) (removed int, err error) {
	ctx, end := context.WithTimeout(context.Background(), lookLimit)
	defer end()
	versions, err := older(ctx, store, agree.VersionDir, minVersionAge)
	if err != nil || f.DryRun {
		return len(versions), err
	}
	gone := map[string][]byte{}
	for _, key := range versions {
		content, found, err := store.Get(ctx, key)
		if err == nil && found {
			gone[key] = content
			err = store.Remove(ctx, key)
		}
		if err != nil {
			return 0, err
		}
	}
	if removed = len(versions); len(gone) == 0 {
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
