package tuner

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// rendezvous is a store that the ranks of a job share, as one process uses it. All communicators of the
// process that name the same store share it and its poller. Opening a store can take long, so the fields
// after done are set only when done is closed.
type rendezvous struct {
	rendezvousKey
	plugin *Plugin
	log    telemetry.Log // of the first communicator
	users  int           // guarded by plugin.mu

	done   chan struct{}
	store  agree.Store
	poller *agree.Poller
	timing agree.Timing
	close  func()
	// inPlace returns an error if processes that open the store now may meet elsewhere. A nil function means
	// that they cannot.
	inPlace func(context.Context) error
	err     error
}

// rendezvousKey tells one rendezvous from another.
type rendezvousKey struct {
	name      string // NCCL_TUNER_RENDEZVOUS
	trust     bool   // NCCL_TUNER_RENDEZVOUS_TRUST
	aggregate bool   // a node's reports are merged, see agree.NodeStore
}

// aggregateAbove is the number of nodes above which one process of each node polls the store for all its
// ranks. If each rank polled, they would overload the store.
const aggregateAbove = 64

// privateStore names the default store, a directory in memory for all jobs of this user on this machine. The
// last process that uses it removes it.
const privateStore = "jobs"

// openRetry is the pause after a failed attempt to open a store. It spares a file server that all ranks of a
// job ask.
const openRetry = 250 * time.Millisecond

// meet opens the store that the settings name, for a communicator of this number of nodes. The caller
// releases it. The communicators of a process share an open store while other processes that open it now meet
// in the same place. meet retries for as long as a rank may join, because other ranks may have opened the
// store. The error says what cannot be used and which setting names it.
func (p *Plugin) meet(s settings, nodes int, log telemetry.Log) (*rendezvous, error) {
	key := rendezvousKey{s.rendezvous, s.trust, nodes > aggregateAbove}
	ctx, cancel := whileRunning(p.clock, agree.JoinLimit)
	defer cancel()
	why := fmt.Errorf("%s does not answer", p.setting(s.rendezvous))
	for {
		r, begun := p.attempt(key, log)
		select {
		case <-r.done:
		case <-ctx.Done():
			r.release()
			return nil, why
		}
		switch {
		case r.err != nil:
			why = r.err
			r.release()
			select {
			case <-time.After(openRetry):
			case <-ctx.Done():
				return nil, why
			}
		case begun || r.inPlace == nil || r.inPlace(ctx) == nil:
			return r, nil
		default:
			p.mu.Lock()
			r.forget()
			p.mu.Unlock()
			r.release()
		}
	}
}

// attempt returns the open store or an attempt to open it. begun reports that this call began the attempt.
// Several communicators share an attempt; each releases it.
func (p *Plugin) attempt(key rendezvousKey, log telemetry.Log) (r *rendezvous, begun bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.rendezvous[key]; r != nil {
		r.users++
		return r, false
	}
	r = &rendezvous{rendezvousKey: key, plugin: p, log: log, users: 1, done: make(chan struct{})}
	p.rendezvous[key] = r
	go func() {
		defer close(r.done)
		if r.err = r.open(); r.err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			r.forget()
		}
	}()
	return r, true
}

// release ends one use of the store; the last one closes it.
func (r *rendezvous) release() {
	r.plugin.mu.Lock()
	r.users--
	last := r.users == 0
	if last {
		r.forget()
	}
	r.plugin.mu.Unlock()
	if !last {
		return
	}
	end := func() {
		if <-r.done; r.err == nil {
			r.close()
		}
	}
	select {
	case <-r.done:
		end()
	default: // a file server is away, and no signal ends a system call that waits for it
		go end()
	}
}

// forget makes later communicators open the store anew. Those that use it keep it. The caller holds plugin.mu.
func (r *rendezvous) forget() {
	if r.plugin.rendezvous[r.rendezvousKey] == r {
		delete(r.plugin.rendezvous, r.rendezvousKey)
	}
}

// setting names a rendezvous for a message.
func (p *Plugin) setting(rendezvous string) string {
	if rendezvous == "" {
		return p.shm
	}
	return EnvRendezvous + "=" + wording.HideSecrets(rendezvous)
}

// open opens the store.
func (r *rendezvous) open() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a defect in the plugin: %v", p)
		}
	}()
	switch {
	case r.name == "":
		s, err := dirstore.Private(r.plugin.shm, privateStore, identity.New())
		if err != nil {
			return fmt.Errorf("%s cannot be used: %w (%s names another directory)", r.plugin.shm, err, EnvRendezvous)
		}
		r.store, r.timing, r.inPlace, r.close = s, agree.Local, s.InPlace, s.Close
	case IsEtcd(r.name):
		s, end, err := openEtcd(r.name, r.plugin.getenv)
		if err != nil {
			return err
		}
		r.store, r.timing, r.close = s, agree.Etcd, end
	default:
		s, err := r.openDirectory()
		if err != nil {
			return fmt.Errorf("%s: %w", r.plugin.setting(r.name), err)
		}
		r.store, r.timing, r.inPlace, r.close = s, agree.Shared, s.InPlace, s.Close
	}
	if r.aggregate {
		if err := r.aggregateRanks(); err != nil {
			r.close()
			return err
		}
	}
	r.poller = agree.NewPoller(r.store, r.plugin.clock, r.timing)
	return nil
}

// changeTime estimates how long a change takes.
func (r *rendezvous) changeTime() time.Duration {
	return 3 * r.timing.Settle // one until all have promised, one until the switch, and one for the rest
}

// openDirectory opens a directory that machines share.
func (r *rendezvous) openDirectory() (*dirstore.Store, error) {
	s, err := dirstore.Open(r.name, identity.New())
	if err != nil {
		return nil, safefile.Reason(err)
	}
	if r.trust {
		s.TrustAll()
	}
	if err := s.Check(); err != nil {
		s.Close()
		if !errors.Is(err, dirstore.ErrForeign) {
			return nil, safefile.Reason(err)
		}
		return nil,
			fmt.Errorf("%w. Name a directory of your own, or set %s=1 if whoever can write there may decide for "+
				"this job", err, EnvTrust)
	}
	var once sync.Once
	s.OnRefusal(func(err error) {
		once.Do(func() {
			r.log.Warnf("a record is refused, and no change can come while it is there: %v. Remove it, or set %s=1 "+
				"if whoever has put it may decide for this job", err, EnvTrust)
		})
	})
	return s, nil
}

// takeOver is how long a node may be without an aggregator.
const takeOver = 5 * time.Second

// aggregateRanks puts a store of the node's own in front of the shared one. One process of
// the node is the aggregator; if it ends, another one takes over.
func (r *rendezvous) aggregateRanks() error {
	local, err := dirstore.Private(dirstore.Shm, fmt.Sprintf("mirror-%x", sha256.Sum256([]byte(r.name)))[:23],
		identity.New())
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", dirstore.Shm, err)
	}
	r.timing.Settle = max(r.timing.Settle, agree.AggregatedSettle)
	node := agree.NewNodeStore(r.store, local)
	ctx, stop := context.WithCancel(context.Background())
	var aggregating sync.WaitGroup
	aggregating.Go(func() {
		for ctx.Err() == nil {
			if end, ok := local.LockAggregator(); ok {
				node.Aggregate(ctx, r.plugin.clock, r.timing)
				end()
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(takeOver):
			}
		}
	})
	closeShared := r.close
	r.store = node
	shared := r.inPlace
	r.inPlace = func(ctx context.Context) error {
		if err := local.InPlace(ctx); err != nil || shared == nil {
			return err
		}
		return shared(ctx)
	}
	r.close = func() {
		stop()
		aggregating.Wait()
		local.Close()
		closeShared()
	}
	return nil
}

// whileRunning returns a context that ends when this process has run for the limit. Time for which the
// process is stopped, by a debugger for example, does not count: each wake-up counts for at most a second.
func whileRunning(clock agree.Clock, limit time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(context.Background())
	var wait func(left time.Duration)
	wait = func(left time.Duration) {
		clock.AfterFunc(min(left, time.Second), func() {
			switch left -= time.Second; {
			case left <= 0:
				cancel()
			case ctx.Err() == nil:
				wait(left)
			}
		})
	}
	wait(limit)
	return ctx, cancel
}
