// Package livejobs shows running jobs and acts on them, by what their ranks write down for each other: View lists communicators,
// Push puts a policy into force and waits, Cleanup removes what jobs that have ended left behind.
package livejobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/redact"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// lookLimit bounds one look at a rendezvous: a file server may be away.
const lookLimit = 10 * time.Second

// observer looks at rendezvous without taking part, again and again.
type observer struct {
	name      string        // of the rendezvous; "" means the default ones, which come and go
	own       bool          // to remove from: of the default ones only this user's, and records that this user trusts
	etcd      agree.Records // if name is a URL
	inspector map[string]*agree.Inspector
	bundles   map[string]*policyfile.Bundle // by content
	unseen    []error                       // what the last look could not look at
}

func newObserver(name string) *observer {
	return &observer{name: name, inspector: map[string]*agree.Inspector{}, bundles: map[string]*policyfile.Bundle{}}
}

// communicator is one as a person is to see it.
type communicator struct {
	agree.Communicator
	place    tuner.RendezvousView
	version  agree.VersionName  // in force
	since    time.Time          // zero if not known
	files    *policyfile.Bundle // that the version is made from; nil if not known
	members  []member
	pending  *agree.Change
	frozen   *agree.Change
	inForce  uint64          // the change that brought the version in force, 0 for the start version
	refused  []*agree.Change // since then, as far as they are recorded
	observed time.Time
}

// member is the owner of a slot.
type member struct {
	slot    int
	rank    int // -1: not known
	process identity.Process
	unnamed bool // the record names no process
	state   identity.State
	left    bool // it has ended the communicator
}

func (m member) String() string {
	if m.unnamed {
		return "a process without a name"
	}
	return m.process.String()
}

// gone reports that this rank does nothing any more.
func (m member) gone() bool { return m.left || m.state == identity.Dead }

// places returns where to look.
func (o *observer) places() ([]tuner.RendezvousView, error) {
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
		return nil, fmt.Errorf("%s is not understood (allowed: a directory, etcd://HOST:PORT/PREFIX, etcds://...)", redact.URL(o.name))
	default:
		places, unseen, err := tuner.Visit(o.name)
		o.unseen = unseen
		if o.own {
			return slices.DeleteFunc(places, func(p tuner.RendezvousView) bool { return p.Private && !p.Own }), err
		}
		for _, p := range places {
			p.Directory.JudgeAsOwner() // whoever looks
		}
		return places, err
	}
	return []tuner.RendezvousView{{Name: o.name, Records: o.etcd}}, nil
}

// look returns all communicators of the rendezvous.
func (o *observer) look(ctx context.Context) (all []communicator, err error) {
	places, err := o.places()
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, lookLimit)
	defer end()
	for _, p := range places {
		if o.inspector[p.Name] == nil {
			o.inspector[p.Name] = agree.Inspect(p.Records)
		} else if p.Directory != nil {
			p.Directory.Close() // the inspector has one open
		}
		found, err := o.inspector[p.Name].Communicators(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil, fmt.Errorf("%s: no answer within %v", p.Name, lookLimit)
		case err != nil && len(places) > 1: // one job's folder hides no other job
			o.unseen = append(o.unseen, fmt.Errorf("%s: %w", p.Name, err))
			delete(o.inspector, p.Name)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		for _, c := range found {
			all = append(all, o.judge(ctx, p, c))
		}
	}
	return all, nil
}

func (o *observer) judge(ctx context.Context, p tuner.RendezvousView, from agree.Communicator) communicator {
	c := communicator{Communicator: from, place: p, observed: time.Now()}
	c.version, c.since = c.InForce()
	c.pending, c.frozen = c.Undecided(), c.Frozen()
	for i := range c.Changes {
		d := c.Changes[i].Decision
		if d != nil {
			d.Abort, d.Detail = clipped(d.Abort), clipped(d.Detail)
		}
		switch {
		case d != nil && d.Commit:
			c.refused, c.inForce = nil, c.Changes[i].K
		case d != nil && !d.Frozen():
			c.refused = append(c.refused, &c.Changes[i])
		}
	}
	for _, s := range c.Slots {
		m := member{slot: s.Index, rank: identity.ParseRank(s.Identity), left: s.Left}
		var err error
		if m.process, err = identity.Parse(s.Identity); err != nil {
			m.unnamed = true
		} else {
			m.state = m.process.State()
		}
		c.members = append(c.members, m)
	}
	c.files = o.bundle(ctx, p, c.version)
	return c
}

// bundle returns what a version is made from, nil if that is not known.
func (o *observer) bundle(ctx context.Context, p tuner.RendezvousView, v agree.VersionName) *policyfile.Bundle {
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

// clipped is the beginning of a text from a record, which anybody may have made long.
func clipped[T ~string](text T) T {
	const most = 500
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}

// name is the communicator as the plugin's log names it.
func (c *communicator) name() string { return fmt.Sprintf("%#x", c.ID) }

// over reports that no rank does anything with the communicator any more.
func (c *communicator) over() bool {
	for _, m := range c.members {
		if !m.gone() {
			return false
		}
	}
	// Ranks that have a start version and no slots yet are about to claim them.
	return len(c.members) > 0 || !c.Newest.IsZero() && c.observed.Sub(c.Newest) > agree.JoinLimit
}

// asked reports that NCCL asks a tuner about the communicator. It asks nothing about one
// rank, so that such a communicator never comes to the call at which a version switches.
func (c *communicator) asked() bool { return c.Ranks > 1 }

// ending reports that no collective runs on the communicator any more: a rank has ended
// it, or all have.
func (c *communicator) ending() bool { return c.over() || len(c.left()) > 0 }

// which returns the members for which is holds.
func (c *communicator) which(is func(member) bool) (some []member) {
	for _, m := range c.members {
		if is(m) {
			some = append(some, m)
		}
	}
	return some
}

func (c *communicator) dead() []member {
	return c.which(func(m member) bool { return m.state == identity.Dead && !m.left })
}

func (c *communicator) left() []member { return c.which(func(m member) bool { return m.left }) }

// missing returns who has not acknowledged the pending change.
func (c *communicator) missing() []member {
	return c.which(func(m member) bool {
		_, acknowledged := c.pending.Acks[m.slot]
		return !acknowledged
	})
}

// hosts returns where the ranks are, each host once.
func (c *communicator) hosts() (hosts []string) {
	seen := map[string]bool{}
	for _, m := range c.members {
		if host := m.process.Host; host != "" && !seen[host] {
			seen[host] = true
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// paths returns where the policy file and the model file lie that the ranks read, as
// far as this machine knows; "" for none that is known.
func (c *communicator) paths() (policy, model string) {
	if c.files != nil {
		policy, model = c.files.Policy.Name, c.files.Model.Name
	}
	for _, m := range c.members {
		if m.unnamed || m.gone() || m.state == identity.Unknown {
			continue
		}
		// A version that was started on without a file that can be used names none.
		if policy == "" {
			policy = m.process.Getenv(tuner.EnvConfigFile)
		}
		if model == "" {
			model = m.process.Getenv(tuner.EnvModelFile)
		}
		if path, ok := m.process.Path(policy); ok {
			policy = path
		}
		if path, ok := m.process.Path(model); ok {
			model = path
		}
		break
	}
	return policy, model
}

// place is the rank, where the job's processes are told theirs, or else the slot.
func (m member) place() string {
	if m.rank >= 0 {
		return fmt.Sprintf("rank %d", m.rank)
	}
	return fmt.Sprintf("slot %d", m.slot)
}

// names lists members for a line.
func names(members []member) string {
	list := make([]string, len(members))
	for i, m := range members {
		state := ""
		switch {
		case m.left:
			state = ", has ended the communicator"
		case m.state == identity.Dead, m.state == identity.Stopped:
			state = ", " + m.state.String()
		}
		list[i] = fmt.Sprintf("%s (%s%s)", m, m.place(), state)
	}
	return few(list)
}

// here reports whether a rank on this machine still has the communicator.
func (c *communicator) here() bool {
	return len(c.which(func(m member) bool { return !m.left && (m.state == identity.Running || m.state == identity.Stopped) })) > 0
}
