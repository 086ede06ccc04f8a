package livejobs

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
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// Cleanup removes what jobs that have ended left behind where their ranks met.
type Cleanup struct {
	Rendezvous string        // "": $NCCL_TUNER_RENDEZVOUS, else the default ones
	OlderThan  time.Duration // 0: only what is known to have ended
	DryRun     bool
}

// minQuiet is how long nothing must have been recorded of a communicator whose ranks
// have all ended: others may be about to join it.
const minQuiet = 6 * agree.JoinLimit

// minOlderThan is the least --older-than. A time in minutes would be a slip of the hand.
const minOlderThan = 24 * time.Hour

// Run says what it removes.
func (f *Cleanup) Run(out io.Writer) error {
	if f.OlderThan != 0 && f.OlderThan < minOlderThan {
		return cli.Usagef("--older-than %v: too short for the records of a job that may run (allowed: 24h or more)",
			f.OlderThan)
	}
	o := newObserver(rendezvous(f.Rendezvous))
	o.own = true // another user's records are not ours to remove
	if o.name == "" {
		if err := f.removeUnused(out); err != nil {
			return err
		}
	}
	all, err := o.look(context.Background())
	if err != nil {
		return err
	}
	failed := o.unseen
	for _, p := range o.seen {
		if p.Directory == nil {
			fmt.Fprintf(out, "%s: drops by itself what no process uses\n", p.Name)
			continue
		}
		var here []*Communicator
		for _, c := range all {
			if c.Rendezvous == p.Name {
				here = append(here, c)
			}
		}
		if err := trusted(p); err != nil {
			if jobs, _ := dirstore.Below(p.Name); len(jobs) == 0 { // where jobs of all users meet, and none has
				fmt.Fprintf(out, "%s: nothing there\n", p.Name)
				continue
			}
			failed = append(failed, err) // one job's folder hides no other job
		} else if err := f.clean(out, o.inspector[p.Name], p, here); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	return errors.Join(failed...)
}

// trusted returns an error for a directory in which others could lead gc elsewhere by a link.
func trusted(p tuner.RendezvousView) error {
	if os.Getenv(tuner.EnvTrust) == "1" {
		return nil
	}
	if err := p.Directory.Check(); err != nil {
		return fmt.Errorf("%w; whoever can write there could have it remove other things (%s=1 allows it)", err,
			tuner.EnvTrust)
	}
	return nil
}

// removeUnused removes the private directories of this user that no process uses.
func (f *Cleanup) removeUnused(out io.Writer) error {
	dirs, err := dirstore.PrivateDirs(dirstore.Shm, os.Getuid())
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if f.DryRun && dirstore.Unused(dir) || !f.DryRun && dirstore.RemoveUnused(dir) {
			fmt.Fprintf(out, "%s: %s, no process uses it\n", dir, f.removed())
		}
	}
	if len(dirs) == 0 {
		fmt.Fprintf(out, "%s: nothing there\n", dirstore.Shm)
	}
	return nil
}

// removed is the verb for what gc does.
func (f *Cleanup) removed() string {
	if f.DryRun {
		return "would be removed"
	}
	return "removed"
}

// clean removes and prints what nobody needs in a directory.
func (f *Cleanup) clean(out io.Writer, inspector *agree.Inspector, p tuner.RendezvousView, all []*Communicator) error {
	var live, kept, removed, records, versions int
	for _, c := range all {
		if c.here() {
			live++
			continue
		}
		ended, why := f.removable(c)
		becomes := "stays"
		if ended {
			if !f.DryRun {
				if err := removeComm(p.Directory, c); err != nil {
					return err
				}
			}
			removed++
			records += len(c.Keys)
			becomes = f.removed()
		} else {
			kept++
		}
		fmt.Fprintf(out, "%s of %d ranks: %s, %s\n", c.Name, c.Ranks, becomes, why)
	}
	var err error
	if live+kept == 0 {
		if versions, err = f.removeVersions(p.Directory, inspector); err != nil {
			return err
		}
	}
	if f.OlderThan > 0 {
		ended, err := f.removeEnded(p.Directory)
		if err != nil {
			return err
		}
		records += ended
	}
	fmt.Fprintf(out, "%s: %s of %s and %s of policies %s; %s here\n", p.Name, wording.Plural(records, "record"),
		wording.Plural(removed, "communicator"), wording.Plural(versions, "version"), f.removed(),
		wording.Plural(live, "communicator")+wording.Verb(live, " lives", " live"))
	return nil
}

// removable reports whether no process needs the records of a communicator any more, and why. No rank of it lives here.
func (f *Cleanup) removable(c *Communicator) (ended bool, why string) {
	quiet := c.quiet()
	unknown := c.which(func(m member) bool { return !m.gone() })
	switch {
	case quiet < minQuiet:
		return false, fmt.Sprintf("its last record is younger than %v", minQuiet)
	case len(unknown) > 0 && f.OlderThan == 0:
		return false, fmt.Sprintf("this machine cannot see whether it lives: %s (see --older-than)", names(unknown))
	case len(unknown) > 0 && quiet < f.OlderThan:
		return false,
			fmt.Sprintf("its last record is younger than %v, and this machine cannot see whether it lives: %s",
				f.OlderThan, names(unknown))
	case len(unknown) > 0:
		return true, fmt.Sprintf("nothing recorded since %s", moment(c.Newest))
	case len(c.Members) == 0 && len(c.Faults) > 0:
		return false, "its records cannot be read"
	case len(c.Members) == 0:
		return true, "no rank ever joined"
	}
	return true, "all its ranks have ended"
}
