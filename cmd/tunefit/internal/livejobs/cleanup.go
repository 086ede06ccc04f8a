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
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// Cleanup removes what jobs that have ended left behind where their ranks met.
type Cleanup struct {
	Rendezvous string        // "": $NCCL_TUNER_RENDEZVOUS, else the default ones
	OlderThan  time.Duration // 0: only what is known to have ended
	DryRun     bool
	JSON       bool
}

// cleanup is what was removed, or would be in a dry run.
type cleanup struct {
	DryRun      bool     `json:"dry_run"`
	Directories []string `json:"directories"` // of this user in /dev/shm, that no process uses
	Places      []place  `json:"places"`
}

// place is a rendezvous, and what was removed there.
type place struct {
	Rendezvous    string      `json:"rendezvous"`
	ByItself      bool        `json:"drops_by_itself"` // what no process uses: nothing is to be done
	Communicators []notLiving `json:"communicators"`   // of which no rank lives here
	Records       int         `json:"records"`
	Versions      int         `json:"versions"` // of policies
	Live          int         `json:"live"`     // communicators
}

// notLiving is a communicator that was removed, or why it stays.
type notLiving struct {
	Communicator string `json:"communicator"`
	Ranks        int    `json:"ranks"`
	Removed      bool   `json:"removed"`
	Why          string `json:"why"`
}

// gcRest is how long nothing must have been recorded of a communicator whose ranks
// have all ended: others may be about to join it.
const gcRest = 6 * agree.JoinLimit

// oldest is the least --older-than. A time in minutes would be a slip of the hand.
const oldest = 24 * time.Hour

// Run says what it removes.
func (f *Cleanup) Run(out io.Writer) error {
	if f.OlderThan != 0 && f.OlderThan < oldest {
		return cli.Usagef("--older-than %v: too short for the records of a job that may run (allowed: 24h or more)",
			f.OlderThan)
	}
	done := cleanup{DryRun: f.DryRun, Directories: []string{}, Places: []place{}}
	if !f.JSON {
		return f.run(&done, out)
	}
	return errors.Join(f.run(&done, io.Discard), cli.WriteJSON(out, done))
}

// run notes what it has done, and tells it on the way.
func (f *Cleanup) run(done *cleanup, out io.Writer) error {
	name := rendezvous(f.Rendezvous)
	o := newObserver(name)
	o.own = true // another user's records are not ours to remove
	if name == "" {
		if err := f.removeUnused(done, out); err != nil {
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
				return fmt.Errorf("%w; whoever can write there could have it remove other things (%s=1 allows it)",
					err, tuner.EnvTrust)
			}
		}
		var here []*Communicator
		for _, c := range all {
			if c.Rendezvous == p.Name {
				here = append(here, c)
			}
		}
		cleaned, err := f.clean(o, p, here)
		done.Places = append(done.Places, cleaned)
		cleaned.write(out, f.what())
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return errors.Join(unseen...)
}

// removeUnused removes the private directories of this user that no process uses.
func (f *Cleanup) removeUnused(done *cleanup, out io.Writer) error {
	dirs, err := dirstore.PrivateDirs(dirstore.Shm, os.Getuid())
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if f.DryRun && dirstore.Unused(dir) || !f.DryRun && dirstore.RemoveUnused(dir) {
			done.Directories = append(done.Directories, dir)
			fmt.Fprintf(out, "%s: %s, no process uses it\n", dir, f.what())
		}
	}
	if len(dirs) == 0 {
		fmt.Fprintf(out, "%s: nothing there\n", dirstore.Shm)
	}
	return nil
}

// what becomes of what nobody needs.
func (f *Cleanup) what() string {
	if f.DryRun {
		return "would be removed"
	}
	return "removed"
}

// clean removes from a place what nobody needs. What it returns holds what it has removed, also beside an error.
func (f *Cleanup) clean(o *observer, p tuner.RendezvousView, all []*Communicator) (cleaned place, err error) {
	cleaned = place{Rendezvous: p.Name, Communicators: []notLiving{}}
	store := p.Directory
	if store == nil {
		cleaned.ByItself = true
		return cleaned, nil
	}
	kept := 0
	for _, c := range all {
		if c.here() {
			cleaned.Live++
			continue
		}
		ended, why := f.removable(c)
		if ended && !f.DryRun {
			if err := removeComm(store, c); err != nil {
				return cleaned, err
			}
		}
		cleaned.Communicators = append(cleaned.Communicators, notLiving{c.Name, c.Ranks, ended, why})
		if ended {
			cleaned.Records += len(c.records.Keys)
		} else {
			kept++
		}
	}
	if cleaned.Live+kept == 0 {
		if cleaned.Versions, err = f.removeVersions(store, o, p); err != nil {
			return cleaned, err
		}
	}
	if f.OlderThan > 0 {
		ended, err := f.removeEnded(store)
		if err != nil {
			return cleaned, err
		}
		cleaned.Records += ended
	}
	return cleaned, nil
}

// write tells it; what says what became of what nobody needs.
func (p place) write(out io.Writer, what string) {
	if p.ByItself {
		fmt.Fprintf(out, "%s: drops by itself what no process uses\n", p.Rendezvous)
		return
	}
	removed := 0
	for _, c := range p.Communicators {
		becomes := "stays"
		if c.Removed {
			removed++
			becomes = what
		}
		fmt.Fprintf(out, "%s of %d ranks: %s, %s\n", c.Communicator, c.Ranks, becomes, c.Why)
	}
	fmt.Fprintf(out, "%s: %s of %s and %s of policies %s; %s here\n", p.Rendezvous, plural.Of(p.Records, "record"),
		plural.Of(removed, "communicator"), plural.Of(p.Versions, "version"), what,
		plural.Of(p.Live, "communicator")+plural.Verb(p.Live, " lives", " live"))
}

// removable reports that no process needs the records of a communicator any more, of
// which none lives here.
func (f *Cleanup) removable(c *Communicator) (ended bool, why string) {
	quiet := c.quiet()
	unknown := c.which(func(m member) bool { return !m.gone() })
	switch {
	case quiet < gcRest:
		return false, fmt.Sprintf("its last record is younger than %v", gcRest)
	case len(unknown) > 0 && f.OlderThan == 0:
		return false, fmt.Sprintf("this machine cannot see whether it lives: %s (see --older-than)", names(unknown))
	case len(unknown) > 0 && quiet < f.OlderThan:
		return false,
			fmt.Sprintf("its last record is younger than %v, and this machine cannot see whether it lives: %s",
				f.OlderThan, names(unknown))
	case len(unknown) > 0:
		return true, fmt.Sprintf("nothing recorded since %s", moment(c.records.Newest))
	case len(c.Members) == 0 && len(c.Faults) > 0:
		return false, "its records cannot be read"
	case len(c.Members) == 0:
		return true, "no rank ever claimed a slot"
	}
	return true, "all its ranks have ended"
}
