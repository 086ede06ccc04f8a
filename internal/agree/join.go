package agree

// How a rank comes into a communicator: it finds or sets the version that all ranks start on, claims a slot, and learns
// of the changes before it. Join runs in NCCL's init, so an error here fails the communicator, before any call could be
// decided differently on two ranks.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Errors of Join.
var (
	// ErrUnreachable means that the store did not answer in time.
	ErrUnreachable = errors.New("the store of the ranks' records cannot be reached")
	// ErrOtherVersion means that the other ranks start on a version that this rank can
	// neither find in its own files nor get.
	ErrOtherVersion = errors.New("the other ranks of the communicator start on another version than this rank's files")
	// ErrMixedBuilds means that the ranks understand the same file differently.
	ErrMixedBuilds = errors.New("the ranks of the communicator understand the same policy differently (allowed: the " +
		"same build of the library on one kind of processor, and machines of one kind where the policy asks for the " +
		"topology)")
	// ErrMixedKnowledge means that ranks know different things of one communicator.
	ErrMixedKnowledge = errors.New("the ranks of the communicator describe it differently")
)

// joinRetry is the pause before Join repeats an operation that failed.
const joinRetry = 20 * time.Millisecond

// Join makes this rank a member before its first call. It does not wait for other ranks. ctx should end after
// JoinLimit. A rank that has not joined by then cannot know on which version the others start. So Join fails,
// and the communicator must not be used.
func Join(ctx context.Context, cfg Config) (*Member, error) {
	if cfg.Thread == nil {
		cfg.Thread = syscall.Gettid
	}
	m := &Member{cfg: cfg, keys: keys(cfg.Comm), slot: -1, change: change{k: 1}, lastRead: cfg.Own.EffectDigest,
		done: make(chan struct{}), wake: make(chan struct{}, 1), background: background{advised: map[Reason]bool{}}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	cfg.Counter.Trigger.Store(Never)
	cfg.Counter.All.Store(1)
	if err := m.join(ctx); err != nil {
		m.stop()
		return nil, err
	}
	m.flushLog()
	if m.change.state == static {
		close(m.done)
		return m, nil
	}
	cfg.Poller.add(m)
	go m.run()
	return m, nil
}

// An id may be used again once its communicator has ended. The next one of that id is another
// generation, with keys of its own: records of the first may still be about to be removed.

// errEnded means that the communicator with these keys has ended.
var errEnded = errors.New("an earlier communicator had this id")

// join finds the first generation of the id that has not ended, and joins it.
func (m *Member) join(ctx context.Context) error {
	for generation := 1; ; generation++ {
		if err := m.joinGeneration(ctx); !errors.Is(err, errEnded) {
			return err
		}
		m.keys, m.slot = keys(fmt.Sprintf("%s-%d", m.cfg.Comm, generation)), -1 // see parseCommKey
		m.inForce = InForce{}
	}
}

// joinGeneration reads or puts the start version, claims a slot, and stages the version. Staging comes last, because
// it may wait until all ranks have a slot.
func (m *Member) joinGeneration(ctx context.Context) error {
	v, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.claim(ctx); err != nil {
		return err
	}
	if err = m.checkJoined(ctx); err == nil {
		err = m.loadStart(ctx, v)
	}
	switch {
	case errors.Is(err, errEnded), err != nil && m.slot >= 0:
		return err
	case err != nil:
		return fmt.Errorf("another communicator has the id %s: %w", m.cfg.Comm, err)
	case m.slot >= 0:
		m.log(false, "rank joined as rank index %d of %d, version %.12s", m.slot, m.cfg.Ranks, v.EffectDigest)
		return nil
	}
	m.change.state = static
	m.log(true, "another communicator has the id %s: this one starts on the same version, and neither changes any more",
		m.cfg.Comm)
	return nil
}

// start returns the version for call 0, the first rank's.
func (m *Member) start(ctx context.Context) (v VersionID, err error) {
	err = m.retryUntil(ctx, func(ctx context.Context) error {
		stands, found, err := m.cfg.Store.Get(ctx, m.keys.dir(kindInit))
		if err != nil || !found {
			if m.checkEnded(ctx) == errEnded {
				return errEnded
			}
		}
		if err == nil && !found {
			// Only a rank that may be the first puts its file. If the store is full, ranks
			// that have the same file do without.
			_, err = m.cfg.Store.PutOnce(ctx, m.cfg.Own.Key(), m.cfg.OwnContent)
			if err == nil || errors.Is(err, ErrRefused) {
				stands, err = m.cfg.Store.PutOnce(ctx, m.keys.dir(kindInit), encode(m.cfg.Own))
			}
		}
		if err == nil {
			v, err = decode[VersionID](stands)
		}
		return err
	})
	return v, err
}

// checkEnded returns errEnded if the communicator with these keys has ended, all others have left.
func (m *Member) checkEnded(ctx context.Context) error {
	_, ended, err := m.cfg.Store.Get(ctx, m.keys.ended())
	if err == nil && ended {
		err = errEnded
	}
	return err
}

// claim claims one slot, and leaves m.slot at -1 if all have other owners.
func (m *Member) claim(ctx context.Context) error {
	first := m.cfg.Rank
	if first < 0 || first >= m.cfg.Ranks {
		h := fnv.New32a()
		h.Write([]byte(m.cfg.Identity))
		first = int(h.Sum32() % uint32(m.cfg.Ranks))
	}
	var taken []string // unknown as long as the first slot may be free
	for i := range m.cfg.Ranks {
		slot := (first + i) % m.cfg.Ranks
		if slices.Contains(taken, strconv.Itoa(slot)) {
			continue
		}
		if won, err := m.claimSlot(ctx, slot); won || err != nil {
			return err
		}
		if taken != nil {
			continue
		}
		err := m.retryUntil(ctx, func(ctx context.Context) (err error) {
			taken, err = m.cfg.Store.List(ctx, m.keys.dir(kindSlot))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// claimSlot repeats until it knows whose the slot is, because a member must not own two. A
// slot whose mark it cannot read stays nobody's, like that of a rank that crashed.
func (m *Member) claimSlot(ctx context.Context, slot int) (won bool, err error) {
	err = m.retryUntil(ctx, func(ctx context.Context) error {
		record := m.cfg.slotRecord()
		stands, err := m.cfg.Store.PutOnce(ctx, m.keys.slot(slot), record)
		won = err == nil && bytes.Equal(stands, record)
		if won {
			m.slotMark, err = m.cfg.Store.Mark(ctx, m.keys.slot(slot))
		}
		return err
	})
	if err == nil && won {
		m.slot = slot
	}
	return won, err
}

// checkJoined makes sure that nobody was removing the records while this rank claimed a slot, or found none.
// The record of the end is put before the first removal. So if it does not exist by now, this rank has missed
// no record.
//
// A rank that finds no slot is a duplicate: its communicator shares its id with another one, and each of them may hold
// slots. So it rules out the first change, without which there is no other. If that is proposed, ranks of its own
// communicator may obey it, and the duplicate must not start.
func (m *Member) checkJoined(ctx context.Context) error {
	changed := errors.New("it has changed its policy, or is ending; create both before the change")
	err := m.retryUntil(ctx, func(ctx context.Context) (alone error) {
		if m.slot < 0 {
			stands, err := m.cfg.Store.PutOnce(ctx, m.keys.proposal(1), encode(Proposal{Freeze: true}))
			first, err2 := decode[Proposal](stands)
			if alone = cmp.Or(err, err2); alone == nil && !first.Freeze {
				alone = changed
			}
		}
		if err := m.checkEnded(ctx); err != nil {
			return err
		}
		return alone
	})
	if errors.Is(err, changed) {
		return changed // the store does answer
	}
	return err
}

// loadStart reads and stages the version for call 0.
func (m *Member) loadStart(ctx context.Context, v VersionID) (err error) {
	content := m.cfg.OwnContent
	if v.Content != m.cfg.Own.Content {
		err := m.retryUntil(ctx, func(ctx context.Context) error {
			var ok bool
			if content, ok = readContent(ctx, m.cfg.Store.Get, v); !ok {
				return errors.New("the version's content is not there")
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%w: theirs is %.12s, this rank's is %.12s, and theirs could not be read: %w",
				ErrOtherVersion, v.EffectDigest, m.cfg.Own.EffectDigest, err)
		}
	}
	m.inForce.Snapshot, err = m.stage(ctx, v, content)
	if errors.Is(err, ErrUnreachable) && v != m.cfg.Own {
		err = fmt.Errorf("%w: %w", ErrOtherVersion, err)
	}
	if err != nil && err != ErrMixedBuilds {
		err = fmt.Errorf("version %.12s, which the other ranks use: %w", v.Content, err)
	}
	return err
}

// stage turns a version's content into a snapshot. ErrMixedBuilds means that the version is another one here.
func (m *Member) stage(ctx context.Context, v VersionID, content []byte) (Snapshot, error) {
	snapshot, err := m.cfg.Stage(content, v.Content, Ranks{m, ctx})
	if err != nil {
		return nil, err
	}
	if snapshot.EffectDigest() != v.EffectDigest {
		return nil, ErrMixedBuilds
	}
	return snapshot, nil
}

// Ranks answers Config.Stage, while it runs.
type Ranks struct {
	m   *Member
	ctx context.Context
}

// Same returns an error unless this rank knows of the communicator what its first rank knows. What they know is
// text about one thing.
func (r Ranks) Same(known string) error {
	stands, err := r.m.putFirst(r.ctx, r.m.keys.dir(kindKnown), known)
	if err == nil && stands != known {
		err = fmt.Errorf("%w: %s on this rank, %s on another", ErrMixedKnowledge, known, stands)
	}
	return err
}

// A program may name a communicator, and may name it otherwise on each rank. So that all ranks take the same
// name, each slot's record has its owner's. Once all slots are taken, one rank compares them and puts the
// outcome, which is never put again.

const (
	// nameLimit is how long a rank waits for the others' names. Then there is no name, on any rank.
	nameLimit = JoinLimit / 2
	namePause = 50 * time.Millisecond
)

// Name returns the name that Config.Name is on all ranks. It is "" if ranks were given different names or none.
// All ranks get the same answer, at any time. It waits until all ranks have joined, nameLimit at most.
func (r Ranks) Name() (name string, err error) {
	m := r.m
	waits, end := withLimit(r.ctx, m.cfg.Clock, nameLimit)
	defer end()
	for {
		known := false
		err := m.retryUntil(r.ctx, func(ctx context.Context) (err error) {
			var stands []byte
			if stands, known, err = m.cfg.Store.Get(ctx, m.keys.dir(kindName)); err != nil || known {
				name = string(stands)
				return err
			}
			if m.slot <= 0 { // one rank compares, else each would read every slot
				name, known, err = m.compareNames(ctx)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		if known || waits.Err() != nil {
			return m.putFirst(r.ctx, m.keys.dir(kindName), name)
		}
		sleep(waits, m.cfg.Clock, namePause, nil)
	}
}

// putFirst puts a record unless there is one, and returns what stands.
func (m *Member) putFirst(ctx context.Context, key, text string) (stands string, err error) {
	err = m.retryUntil(ctx, func(ctx context.Context) error {
		value, err := m.cfg.Store.PutOnce(ctx, key, []byte(text))
		stands = string(value)
		return err
	})
	return stands, err
}

// compareNames returns the name that all slots' records have, "" if they differ. known is false while some are not
// taken.
func (m *Member) compareNames(ctx context.Context) (common string, known bool, err error) {
	slots, err := m.cfg.Store.List(ctx, m.keys.dir(kindSlot))
	if err != nil || len(slots) < m.cfg.Ranks {
		return "", false, err
	}
	for i := range m.cfg.Ranks {
		value, found, err := m.cfg.Store.Get(ctx, m.keys.slot(i))
		if err != nil || !found {
			return "", false, err
		}
		_, name := parseSlot(value)
		if i > 0 && name != common {
			return "", true, nil
		}
		common = name
	}
	return common, true, nil
}

// retryUntil repeats an operation until it succeeds or ctx ends.
func (m *Member) retryUntil(ctx context.Context, op func(context.Context) error) error {
	var err error
	for {
		latest := m.attempt(ctx, op)
		if latest == nil || latest == errEnded {
			return latest
		}
		if err == nil || ctx.Err() == nil {
			err = latest // an error after the end of ctx tells nothing
		}
		if sleep(ctx, m.cfg.Clock, joinRetry, nil); ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
	}
}

func (m *Member) attempt(ctx context.Context, op func(context.Context) error) error {
	ctx, end := withLimit(ctx, m.cfg.Clock, m.cfg.Timing.OpLimit)
	defer end()
	err := op(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("it does not answer")
	}
	return err
}
