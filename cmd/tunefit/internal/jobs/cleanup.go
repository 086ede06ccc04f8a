package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// Cleanup removes what jobs that have ended left behind where their ranks met.
type Cleanup struct {
	Rendezvous string        // "": $NCCL_TUNER_RENDEZVOUS, else the default ones
	OlderThan  time.Duration // 0: only what is known to have ended
	DryRun     bool
}

// gcRest is how long nothing must have been recorded of a communicator whose ranks
// have all ended: others may be about to join it.
const gcRest = 6 * agree.JoinLimit

// oldest is the least --older-than. A time in minutes would be a slip of the hand.
const oldest = 24 * time.Hour

// Run says what it removes.
func (f *Cleanup) Run(out io.Writer) error {
	if f.OlderThan != 0 && f.OlderThan < oldest {
		return cli.Usagef("--older-than %v: too short for the records of a job that may run (allowed: 24h or more)", f.OlderThan)
	}
	name := rendezvous(f.Rendezvous)
	o := newObserver(name)
	o.own = true // another user's records are not ours to remove
	if name == "" {
		if err := f.removeUnused(out); err != nil {
			return err
		}
	}
	all, err := o.look(context.Background())
	if err != nil {
		return err
	}
	unseen := o.unseen
	places, err := o.places()
	if err != nil {
		return err
	}
	for _, p := range places {
		if o.inspector[p.Name] == nil {
			continue // it could not be looked at, or is new
		}
		if p.Directory != nil && os.Getenv(tuner.EnvTrust) != "1" {
			if err := p.Directory.Check(); err != nil {
				return fmt.Errorf("%w; whoever can write there could have it remove other things (%s=1 allows it)", err, tuner.EnvTrust)
			}
		}
		var here []communicator
		for _, c := range all {
			if c.place.Name == p.Name {
				here = append(here, c)
			}
		}
		if err := f.clean(out, o, p, here); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return errors.Join(unseen...)
}

// removeUnused removes the private directories of this user that no process uses.
func (f *Cleanup) removeUnused(out io.Writer) error {
	dirs, err := dirstore.PrivateDirs(dirstore.Shm, os.Getuid())
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		switch {
		case f.DryRun:
			if dirstore.Unused(dir) {
				fmt.Fprintf(out, "%s: would be removed, no process uses it\n", dir)
			}
		case dirstore.RemoveUnused(dir):
			fmt.Fprintf(out, "%s: removed, no process used it\n", dir)
		}
	}
	if len(dirs) == 0 {
		fmt.Fprintf(out, "%s: nothing there\n", dirstore.Shm)
	}
	return nil
}

// clean removes from a place what nobody needs.
func (f *Cleanup) clean(out io.Writer, o *observer, p tuner.RendezvousView, all []communicator) error {
	store := p.Directory
	if store == nil {
		fmt.Fprintf(out, "%s: drops by itself what no process uses\n", p.Name)
		return nil
	}
	what, removed, records, versions, live, kept := "removed", 0, 0, 0, 0, 0
	if f.DryRun {
		what = "would be removed"
	}
	for i := range all {
		c := &all[i]
		if c.here() {
			live++
			continue
		}
		ended, why := f.removable(c)
		if !ended {
			fmt.Fprintf(out, "%s of %d ranks: stays, %s\n", c.name(), c.Ranks, why)
			kept++
			continue
		}
		if !f.DryRun {
			if err := removeComm(store, c); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "%s of %d ranks: %s, %s\n", c.name(), c.Ranks, what, why)
		removed, records = removed+1, records+len(c.Keys)
	}
	if live+kept == 0 {
		var err error
		if versions, err = f.removeVersions(store, o, p); err != nil {
			return err
		}
	}
	if f.OlderThan > 0 {
		ended, err := f.removeEnded(store)
		if err != nil {
			return err
		}
		records += ended
	}
	fmt.Fprintf(out, "%s: %s of %s and %s of policies %s; %s here\n", p.Name, cli.CountOf(records, "record"), cli.CountOf(removed, "communicator"), cli.CountOf(versions, "version"), what,
		cli.CountOf(live, "communicator")+cli.Verb(live, " lives", " live"))
	return nil
}

// removable reports that no process needs the records of a communicator any more, of
// which none lives here.
func (f *Cleanup) removable(c *communicator) (ended bool, why string) {
	quiet := c.observed.Sub(c.Newest)
	unknown := c.which(func(m member) bool { return !m.gone() })
	switch {
	case quiet < gcRest:
		return false, fmt.Sprintf("its last record is younger than %v", gcRest)
	case len(unknown) > 0 && f.OlderThan == 0:
		return false, fmt.Sprintf("from here one cannot see whether it lives: %s (see --older-than)", names(unknown))
	case len(unknown) > 0 && quiet < f.OlderThan:
		return false, fmt.Sprintf("its last record is younger than %v, and from here one cannot see whether it lives: %s", f.OlderThan, names(unknown))
	case len(unknown) > 0:
		return true, fmt.Sprintf("nothing recorded since %s", moment(c.Newest))
	case len(c.members) == 0 && len(c.Faults) > 0:
		return false, "its records cannot be read"
	case len(c.members) == 0:
		return true, "no rank ever claimed a slot"
	}
	return true, "all its ranks have ended"
}
