// Package livejobs shows running jobs and acts on them, through the records that their ranks write for each other. View
// lists communicators, Push puts a policy into force and waits, Cleanup removes what jobs that have ended left behind.
package livejobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// lookLimit bounds a look at one rendezvous: a file server may be away.
const lookLimit = 10 * time.Second

// observer looks at rendezvous without taking part, again and again.
type observer struct {
	name      string          // of the rendezvous; "" means the default ones, which come and go
	own       bool            // only what this user may remove: of the default ones his own, and records that he trusts
	mayCome   bool            // until the directory is there: no job has met in it yet
	etcd      tuner.VisitEtcd // if name is a URL
	inspector map[string]*agree.Inspector
	bundles   map[string]*policyfile.Bundle // by content
	seen      []tuner.RendezvousView        // what the last look could look at
	unseen    []error                       // what it could not look at
	lost      []string                      // rendezvous of those, where they are known
}

func newObserver(name string) *observer {
	return &observer{name: name, inspector: map[string]*agree.Inspector{}, bundles: map[string]*policyfile.Bundle{}}
}

// places returns where to look.
func (o *observer) places(ctx context.Context) (places []tuner.RendezvousView, err error) {
	o.unseen = nil
	switch {
	case o.etcd != nil:
	case tuner.IsEtcd(o.name):
		etcd, err := tuner.LookIntoEtcd(o.name, os.Getenv)
		if err != nil {
			return nil, err
		}
		o.etcd = etcd
	case strings.Contains(o.name, "://"):
		return nil, fmt.Errorf("%s is not understood (allowed: a directory, etcd://HOST:PORT/PREFIX, etcds://...)",
			wording.HideSecrets(o.name))
	case o.mayCome && notCreatedYet(o.name):
		return nil, nil
	default:
		o.mayCome = false
		places, o.unseen, err = tuner.Visit(o.name)
		if o.own {
			return slices.DeleteFunc(places, func(p tuner.RendezvousView) bool { return p.Private && !p.Own }), err
		}
		for _, p := range places {
			p.Directory.JudgeAsOwner() // whoever looks sees the same
		}
		return places, err
	}
	ctx, end := context.WithTimeout(ctx, lookLimit)
	defer end()
	places, o.unseen, err = o.etcd(ctx)
	return places, failed(o.name, err)
}

// notCreatedYet reports that a directory does not exist, and that the first job can make it: the one above does.
func notCreatedYet(dir string) bool {
	_, err := os.Stat(dir)
	_, above := os.Stat(filepath.Dir(filepath.Clean(dir)))
	return dir != "" && errors.Is(err, fs.ErrNotExist) && above == nil
}

// failed names a place that does not answer, or not well.
func failed(place string, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %v", place, lookLimit)
	case err != nil:
		return fmt.Errorf("%s: %w", place, err)
	}
	return nil
}

// look returns all communicators of the rendezvous.
func (o *observer) look(ctx context.Context) (all []*Communicator, err error) {
	places, err := o.places(ctx)
	if err != nil {
		return nil, err
	}
	o.seen, o.lost = nil, nil
	for _, p := range places {
		if o.inspector[p.Name] == nil {
			o.inspector[p.Name] = agree.Inspect(p.Records)
		} else if p.Directory != nil {
			p.Directory.Close() // the inspector has one open
		}
		ctx, end := context.WithTimeout(ctx, lookLimit)
		defer end()
		found, err := o.inspector[p.Name].Communicators(ctx)
		if err := failed(p.Name, err); err != nil {
			if len(places) == 1 || ctx.Err() != nil { // a server that does not answer has the others, too
				return nil, err
			}
			o.unseen, o.lost = append(o.unseen, err), append(o.lost, p.Name) // one job's folder hides no other job
			delete(o.inspector, p.Name)
			continue
		}
		o.seen = append(o.seen, p)
		for _, c := range found {
			bundle := func(v agree.VersionID) *policyfile.Bundle { return o.bundle(ctx, p, v) }
			comm := newCommunicator(p.Name, c, bundle)
			comm.Job = o.job(p.Name)
			all = append(all, comm)
		}
	}
	return all, nil
}

// poll looks until see has seen enough, or ctx ends. Many jobs are as many questions to a file server, so a pause is as
// long as the look before it at least.
func (o *observer) poll(ctx context.Context, every time.Duration, see func([]*Communicator, error) (more bool)) {
	for {
		began := time.Now()
		all, err := o.look(ctx)
		if ctx.Err() != nil || !see(all, err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(every, time.Since(began))):
		}
	}
}

// job names a job whose ranks meet below the rendezvous: by its folder there, "4711" or "alice/run8". It is ""
// where they meet in that rendezvous itself.
func (o *observer) job(rendezvous string) string {
	below, err := filepath.Rel(o.name, rendezvous)
	if o.name == "" || err != nil || below == "." {
		return ""
	}
	return below
}

// sees reports whether the last look saw all communicators of a rendezvous. One that is gone has none: its folder does
// not exist, or nothing in etcd has its prefix.
func (o *observer) sees(rendezvous string) bool {
	if slices.ContainsFunc(o.seen, func(p tuner.RendezvousView) bool { return p.Name == rendezvous }) {
		return true
	}
	_, err := os.Stat(rendezvous)
	return errors.Is(err, fs.ErrNotExist) && !slices.Contains(o.lost, rendezvous)
}

// bundle returns what a version is made from, nil if that is not known.
func (o *observer) bundle(ctx context.Context, p tuner.RendezvousView, v agree.VersionID) *policyfile.Bundle {
	if b := o.bundles[v.Content]; b != nil || v.Content == "" {
		return b
	}
	content, err := o.inspector[p.Name].Content(ctx, v)
	if err != nil {
		return nil
	}
	b, err := policyfile.DecodeBundle(content)
	if err != nil {
		return nil
	}
	o.bundles[v.Content] = &b
	return &b
}
