package livejobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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
	JSON       bool
}

// cleanedPlaces is what gc --json prints.
type cleanedPlaces struct {
	DryRun bool       `json:"dry_run"` // what is called removed would be
	Places []*cleaned `json:"places"`
	Unseen []string   `json:"not_looked_at"`
}

// at begins a place.
func (c *cleanedPlaces) at(name string) *cleaned {
	p := &cleaned{Rendezvous: name, Communicators: []cleanedComm{}}
	c.Places = append(c.Places, p)
	return p
}

// cleaned is a place where ranks meet, and what was removed there.
type cleaned struct {
	Rendezvous    string        `json:"rendezvous"`
	Removed       bool          `json:"removed"` // the place itself: no process uses it
	Communicators []cleanedComm `json:"communicators"`
	Records       int           `json:"records_removed"`
	Versions      int           `json:"versions_removed"`
	Live          int           `json:"communicators_here"`
	Note          string        `json:"note,omitempty"`  // why there is nothing else to say
	Error         string        `json:"error,omitempty"` // the rest was not cleaned
}

// cleanedComm is a communicator that does not live here.
type cleanedComm struct {
	Name    string `json:"communicator"`
	Ranks   int    `json:"ranks"`
	Removed bool   `json:"removed"`
	Why     string `json:"why"`
}

// minQuiet is how long nothing must have been recorded of a communicator whose ranks
// have all ended: others may be about to join it.
const minQuiet = 6 * agree.JoinLimit

// minOlderThan is the least --older-than. A time in minutes would be a slip of the hand.
const minOlderThan = 24 * time.Hour

// Run removes, and prints what it removed, also if it could not clean everything.
func (f *Cleanup) Run(out io.Writer) error {
	all := cleanedPlaces{DryRun: f.DryRun, Places: []*cleaned{}, Unseen: []string{}}
	err := f.run(&all)
	if len(all.Places)+len(all.Unseen) == 0 && err != nil {
		return err
	}
	return errors.Join(err, cli.Print(out, f.JSON, all, func(w io.Writer) {
		for _, p := range all.Places {
			f.write(w, p)
		}
	}))
}

// write prints what became of a place.
func (f *Cleanup) write(w io.Writer, p *cleaned) {
	removed, comms := "removed", 0
	if f.DryRun {
		removed = "would be removed"
	}
	for _, c := range p.Communicators {
		becomes := "stays"
		if c.Removed {
			becomes = removed
			comms++
		}
		fmt.Fprintf(w, "%s of %d ranks: %s, %s\n", c.Name, c.Ranks, becomes, c.Why)
	}
	switch {
	case p.Error != "": // the command ends with it
	case p.Removed:
		fmt.Fprintf(w, "%s: %s, no process uses it\n", p.Rendezvous, removed)
	case p.Note != "":
		fmt.Fprintf(w, "%s: %s\n", p.Rendezvous, p.Note)
	default:
		fmt.Fprintf(w, "%s: %s of %s and %s of policies %s; %s here\n", p.Rendezvous,
			wording.Plural(p.Records, "record"), wording.Plural(comms, "communicator"),
			wording.Plural(p.Versions, "version"), removed,
			wording.Plural(p.Live, "communicator")+wording.Verb(p.Live, " lives", " live"))
	}
}

const nothingThere = "nothing there"

func (f *Cleanup) run(all *cleanedPlaces) error {
	if f.OlderThan != 0 && f.OlderThan < minOlderThan {
		return cli.Usagef("--older-than %v: too short for the records of a job that may run (allowed: 24h or more)",
			f.OlderThan)
	}
	o := newObserver(rendezvous(f.Rendezvous))
	o.own = true      // another user's records are not ours to remove
	if o.name == "" { // private directories that no process uses
		dirs, err := dirstore.PrivateDirs(dirstore.Shm, os.Getuid())
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if f.DryRun && dirstore.Unused(dir) || !f.DryRun && dirstore.RemoveUnused(dir) {
				all.at(dir).Removed = true
			}
		}
		if len(dirs) == 0 {
			all.at(dirstore.Shm).Note = nothingThere
		}
	}
	comms, err := o.look(context.Background())
	if err != nil {
		return err
	}
	failed := o.unseen
	for _, err := range o.unseen {
		all.Unseen = append(all.Unseen, err.Error())
	}
	for _, p := range o.seen {
		here := slices.DeleteFunc(slices.Clone(comms), func(c *Communicator) bool { return c.Rendezvous != p.Name })
		into := all.at(p.Name)
		if err := f.clean(into, o.inspector[p.Name], p, here); err != nil {
			into.Error = err.Error()
			failed = append(failed, err) // one job's folder hides no other job
		}
	}
	return errors.Join(failed...)
}

// clean removes what nobody needs in a place.
func (f *Cleanup) clean(into *cleaned, inspector *agree.Inspector, p tuner.RendezvousView, all []*Communicator) error {
	if p.Directory == nil {
		into.Note = "drops by itself what no process uses"
		return nil
	}
	// Others could lead gc elsewhere by a link.
	if err := p.Directory.Check(); err != nil && os.Getenv(tuner.EnvTrust) != "1" {
		if jobs, _ := dirstore.Below(p.Name); len(jobs) == 0 { // where jobs of all users meet, and none has
			into.Note = nothingThere
			return nil
		}
		return fmt.Errorf("%w; whoever can write there could have it remove other things (%s=1 allows it)", err,
			tuner.EnvTrust)
	}
	g := garbage{p.Directory, inspector, f.DryRun}
	gone := 0
	var failed error
	for _, c := range all {
		if c.here() {
			into.Live++
			continue
		}
		ended, why := f.removable(c)
		if ended {
			failed = errors.Join(failed, g.communicator(c))
			into.Records += len(c.Keys)
			gone++
		}
		into.Communicators = append(into.Communicators, cleanedComm{c.Name, c.Ranks, ended, why})
	}
	var err error
	if gone == len(all) && failed == nil {
		into.Versions, err = g.versions()
	}
	if f.OlderThan > 0 && failed == nil && err == nil {
		var ended int
		ended, err = g.ended(f.OlderThan)
		into.Records += ended
	}
	if failed = errors.Join(failed, err); failed != nil {
		return fmt.Errorf("%s: %w", p.Name, failed)
	}
	return nil
}

// removable reports whether no process needs the records of a communicator any more, and why. No rank of it lives here.
func (f *Cleanup) removable(c *Communicator) (ended bool, why string) {
	quiet, young := c.quiet(), "its last record is younger than "
	unknown := c.which(func(m member) bool { return !m.gone() })
	unseen := "this machine cannot see whether it lives: " + names(unknown)
	switch {
	case quiet < minQuiet:
		return false, young + minQuiet.String()
	case len(unknown) > 0 && f.OlderThan == 0:
		return false, unseen + " (see --older-than)"
	case len(unknown) > 0 && quiet < f.OlderThan:
		return false, young + f.OlderThan.String() + ", and " + unseen
	case len(unknown) > 0:
		return true, "nothing recorded since " + moment(c.Newest)
	case len(c.Members) == 0 && len(c.Faults) > 0:
		return false, "its records cannot be read"
	case len(c.Members) == 0:
		return true, "no rank ever joined"
	}
	return true, "all its ranks have ended"
}
