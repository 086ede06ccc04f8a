package tuner

import (
	"fmt"
	"strings"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree/dirstore"
)

// clock is the process's.
var clock = agree.RealTime()

// rendezvous is a store that the ranks of a job share, as one process uses it: all
// its communicators that name the same one share the poller too.
type rendezvous struct {
	meeting
	store  agree.Store
	poller *agree.Poller
	timing agree.Timing
	close  func()
	users  int
}

// meeting says where ranks meet.
type meeting struct {
	name      string // NCCL_TUNER_RENDEZVOUS
	aggregate bool   // the ranks of a machine act as one
}

// aggregateAbove is the number of nodes from which on the store would have too much
// to do if each rank asked it by itself.
const aggregateAbove = 64

var meetings = struct {
	mu     sync.Mutex
	byName map[meeting]*rendezvous
}{byName: map[meeting]*rendezvous{}}

// privateStore names the default store: a directory in memory for all jobs of this
// user on this machine. It vanishes with the last process that uses it.
const privateStore = "jobs"

// openRendezvous opens what the settings name, for a communicator of so many nodes.
// An error says what cannot be used, and the setting that names it.
func openRendezvous(s settings, nodes int, getenv func(string) string) (*rendezvous, error) {
	meetings.mu.Lock()
	defer meetings.mu.Unlock()
	m := meeting{s.rendezvous, nodes > aggregateAbove}
	r := meetings.byName[m]
	if r == nil {
		r = &rendezvous{meeting: m}
		if err := r.open(getenv); err != nil {
			return nil, err
		}
		if m.aggregate {
			if err := r.aggregateRanks(); err != nil {
				r.close()
				return nil, err
			}
		}
		r.poller = agree.NewPoller(r.store, clock, r.timing)
		meetings.byName[m] = r
	}
	r.users++
	return r, nil
}

// release gives the store up; the last user of the process closes it.
func (r *rendezvous) release() {
	meetings.mu.Lock()
	defer meetings.mu.Unlock()
	if r.users--; r.users == 0 {
		delete(meetings.byName, r.meeting)
		r.close()
	}
}

func (r *rendezvous) open(getenv func(string) string) error {
	switch {
	case r.name == "":
		s, err := dirstore.Private(dirstore.Shm, privateStore, newIdentity())
		if err != nil {
			return fmt.Errorf("%s cannot be used: %w (%s names another directory)", dirstore.Shm, err, EnvRendezvous)
		}
		r.store, r.timing, r.close = s, agree.Local, func() { s.Close() }
	case IsEtcd(r.name):
		s, end, err := openEtcd(r.name, getenv)
		if err != nil {
			return err
		}
		r.store, r.timing, r.close = s, agree.Etcd, end
	case strings.Contains(r.name, "://"):
		return fmt.Errorf("%s=%s is not understood (allowed: a directory, etcd://HOST:PORT/PREFIX, etcds://...)", EnvRendezvous, r.name)
	default:
		s, err := dirstore.Open(r.name, newIdentity())
		if err != nil {
			return fmt.Errorf("%s=%s: %w", EnvRendezvous, r.name, err)
		}
		r.store, r.timing, r.close = s, agree.Shared, func() { s.Close() }
	}
	return nil
}
