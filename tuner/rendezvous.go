package tuner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/openregular"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/redact"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// rendezvous is a store that the ranks of a job share, as one process uses it: all
// its communicators that name the same one share the poller too.
type rendezvous struct {
	rendezvousKey
	plugin *Plugin
	log    telemetry.Log // of the first communicator
	users  int           // guarded by plugin.mu

	mu   sync.Mutex
	last *opening
	lost []*opening // of places that are gone, which communicators still use
}

// rendezvousKey tells one rendezvous from another.
type rendezvousKey struct {
	name      string // NCCL_TUNER_RENDEZVOUS
	trust     bool   // NCCL_TUNER_RENDEZVOUS_TRUST
	aggregate bool   // a node's reports are merged, see agree.NodeStore
}

// opening is an attempt to open a store. What follows done is set when it is closed.
type opening struct {
	done   chan struct{}
	store  agree.Store
	poller *agree.Poller
	timing agree.Timing
	close  func()
	// inPlace returns an error where processes that open the store now may meet elsewhere; nil: they cannot.
	inPlace func(context.Context) error
	err     error
}

// aggregateAbove is the number of nodes above which the store would be overloaded if each
// rank polled it by itself.
const aggregateAbove = 64

// privateStore names the default store: a directory in memory for all jobs of this
// user on this machine. It vanishes with the last process that uses it.
const privateStore = "jobs"

// openRetry is the pause after an opening that failed: all ranks of a job may ask one file server.
const openRetry = 250 * time.Millisecond

// useRendezvous returns what the settings name, for a communicator of so many nodes,
// until release.
func (p *Plugin) useRendezvous(s settings, nodes int, log telemetry.Log) *rendezvous {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := rendezvousKey{s.rendezvous, s.trust, nodes > aggregateAbove}
	r := p.rendezvous[key]
	if r == nil {
		r = &rendezvous{rendezvousKey: key, plugin: p, log: log}
		p.rendezvous[key] = r
	}
	r.users++
	return r
}

// release ends one use of the store; the last one in the process closes it.
func (r *rendezvous) release() {
	r.plugin.mu.Lock()
	r.users--
	last := r.users == 0
	if last {
		delete(r.plugin.rendezvous, r.rendezvousKey)
	}
	r.plugin.mu.Unlock()
	if !last {
		return
	}
	r.mu.Lock()
	all := r.lost
	if r.last != nil {
		all = append(all, r.last)
	}
	r.mu.Unlock()
	for _, o := range all {
		select {
		case <-o.done:
			o.end()
		default: // a file server is away, and no signal ends a system call that waits for it
			go func() { <-o.done; o.end() }()
		}
	}
}

func (o *opening) end() {
	if o.err == nil {
		o.close()
	}
}

// open returns the store, or an error that says what cannot be used and the setting that names it.
// Whatever the reason, other ranks may have opened it: so it tries for as long as a rank may join.
// What another communicator has opened serves, as long as whoever opens the store now meets there.
func (r *rendezvous) open() (*opening, error) {
	ctx, cancel := whileRunning(r.plugin.clock, agree.JoinLimit)
	defer cancel()
	why := fmt.Errorf("%s does not answer", r.setting())
	for {
		o, begun := r.attempt()
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, why
		}
		switch {
		case o.err != nil:
			why = o.err
			select {
			case <-time.After(openRetry):
			case <-ctx.Done():
				return nil, why
			}
		case begun || o.inPlace == nil || o.inPlace(ctx) == nil:
			return o, nil
		default:
			r.lose(o)
		}
	}
}

// attempt returns the store as it was opened, or the attempt to open it, which this call may have begun.
// Several communicators share an attempt.
func (r *rendezvous) attempt() (o *opening, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.last; o != nil && !o.failed() {
		return o, false
	}
	o = &opening{done: make(chan struct{})}
	r.last = o
	go func() {
		defer close(o.done)
		defer func() {
			if p := recover(); p != nil {
				o.err = fmt.Errorf("a defect in the plugin: %v", p)
			}
		}()
		o.err = r.try(o)
	}()
	return o, true
}

// lose keeps the store, whose place is gone, for the communicators that use it.
func (r *rendezvous) lose(o *opening) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == o {
		r.lost, r.last = append(r.lost, o), nil
	}
}

// failed reports that the attempt is over and came to nothing.
func (o *opening) failed() bool {
	select {
	case <-o.done:
		return o.err != nil
	default:
		return false
	}
}

// setting names the rendezvous for a message.
func (r *rendezvous) setting() string {
	if r.name == "" {
		return r.plugin.shm
	}
	return EnvRendezvous + "=" + redact.URL(r.name)
}

func (r *rendezvous) try(o *opening) error {
	switch {
	case r.name == "":
		s, err := dirstore.Private(r.plugin.shm, privateStore, identity.New())
		if err != nil {
			return fmt.Errorf("%s cannot be used: %w (%s names another directory)", r.plugin.shm, err, EnvRendezvous)
		}
		o.store, o.timing, o.inPlace, o.close = s, agree.Local, s.InPlace, func() { s.Close() }
	case IsEtcd(r.name):
		s, end, err := openEtcd(r.name, r.plugin.getenv)
		if err != nil {
			return err
		}
		o.store, o.timing, o.close = s, agree.Etcd, end
	default:
		s, err := r.openDirectory()
		if err != nil {
			return fmt.Errorf("%s: %w", r.setting(), err)
		}
		o.store, o.timing, o.inPlace, o.close = s, agree.Shared, s.InPlace, func() { s.Close() }
	}
	if r.aggregate {
		if err := r.aggregateRanks(o); err != nil {
			o.close()
			return err
		}
	}
	o.poller = agree.NewPoller(o.store, r.plugin.clock, o.timing)
	return nil
}

// changeTime is about how long a change takes.
func (o *opening) changeTime() time.Duration {
	return 3 * o.timing.Settle // until all have promised, from there to the switch, and what comes between
}

// openDirectory opens a directory that machines share.
func (r *rendezvous) openDirectory() (*dirstore.Store, error) {
	s, err := dirstore.Open(r.name, identity.New())
	if err != nil {
		return nil, openregular.Reason(err)
	}
	if r.trust {
		s.TrustAll()
	}
	if err := s.Check(); err != nil {
		s.Close()
		if !errors.Is(err, dirstore.ErrForeign) {
			return nil, openregular.Reason(err)
		}
		return nil, fmt.Errorf("%w. Name a directory of your own, or set %s=1 if whoever can write there may decide for this job", err, EnvTrust)
	}
	var once sync.Once
	s.OnRefusal(func(err error) {
		once.Do(func() {
			r.log.Warnf("a record is refused, and no change can come while it is there: %v. Remove it, or set %s=1 if whoever has put it may decide for this job", err, EnvTrust)
		})
	})
	return s, nil
}
