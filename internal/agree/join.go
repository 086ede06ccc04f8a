package agree

import (
	"bytes"
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
	ErrMixedKnowledge = errors.New("the ranks of the communicator know different things of it")
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
	cfg.Own.Digest = cfg.Own.name().Content
	m := &Member{cfg: cfg, slotState: slotState{keys: keys(cfg.Comm), slot: -1}, change: change{k: 1},
		versions:   versions{lastRead: cfg.Own.Meaning},
		lifecycle:  lifecycle{done: make(chan struct{}), wake: make(chan struct{}, 1)},
		background: background{advised: map[Reason]bool{}}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	cfg.Counter.Trigger.Store(Never)
	cfg.Counter.All.Store(1)
	if err := m.join(ctx); err != nil {
		m.stop()
		m.retireAll()
		if m.versions.current.snapshot != nil {
			m.versions.current.snapshot.Retire()
		}
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
	if m.slot >= 0 {
		if err == nil {
			m.log(false, "rank joined as slot %d of %d, version %.12s", m.slot, m.cfg.Ranks, v.Meaning)
		}
		return err
	}
	if err == nil {
		err = m.joinAsDuplicate(ctx)
	}
	if errors.Is(err, errEnded) {
		return err
	}
	if err != nil {
		return fmt.Errorf("a second communicator with id %s cannot learn what the first decided: %w", m.cfg.Comm, err)
	}
	m.change.state = static
	m.setPastTrigger()
	m.log(true, "another communicator has had the id %s: this one follows the %d changes already decided, and "+
		"neither changes any more", m.cfg.Comm, len(m.versions.past))
	return nil
}

// start returns the version for call 0, the first rank's.
func (m *Member) start(ctx context.Context) (v VersionName, err error) {
	own := m.cfg.Own.name()
	err = m.retryUntil(ctx, func(ctx context.Context) error {
		stands, found, err := m.cfg.Store.Get(ctx, m.keys.init())
		if err != nil || !found {
			if m.checkEnded(ctx) == errEnded {
				return errEnded
			}
		}
		if err == nil && !found {
			// Only a rank that may be the first puts its file. If the store is full, ranks
			// that have the same file do without.
			_, err = m.cfg.Store.PutOnce(ctx, own.Key(), m.cfg.Own.Content)
			if err == nil || errors.Is(err, ErrRefused) {
				stands, err = m.cfg.Store.PutOnce(ctx, m.keys.init(), encode(own))
			}
		}
		if err == nil {
			v, err = decode[VersionName](stands)
		}
		return err
	})
	return v, err
}

// loadStart stages the version for call 0.
func (m *Member) loadStart(ctx context.Context, v VersionName) (err error) {
	own := m.cfg.Own.name()
	m.versions.current, err = m.load(ctx, v, 0)
	if errors.Is(err, ErrUnreachable) && v != own {
		err = fmt.Errorf("%w: theirs is %.12s, this rank's is %.12s, and theirs could not be read: %w",
			ErrOtherVersion, v.Meaning, own.Meaning, err)
	}
	return err
}

// load reads and stages a version that is committed.
func (m *Member) load(ctx context.Context, v VersionName, k uint64) (stagedVersion, error) {
	content := m.cfg.Own.Content
	if v.Content != m.cfg.Own.name().Content {
		err := m.retryUntil(ctx, func(ctx context.Context) error {
			var ok bool
			if content, ok = readContent(ctx, m.cfg.Store, v); !ok {
				return errors.New("the version's content is not there")
			}
			return nil
		})
		if err != nil {
			return stagedVersion{}, err
		}
	}
	snapshot, err := m.stage(ctx, content, v.Content)
	switch {
	case err != nil:
		return stagedVersion{}, fmt.Errorf("version %.12s, which the other ranks use: %w", v.Content, err)
	case snapshot.Meaning() != v.Meaning:
		m.retired.add(snapshot)
		return stagedVersion{}, ErrMixedBuilds
	}
	return stagedVersion{VersionName: v, snapshot: snapshot, k: k}, nil
}

// stage turns a version's content into a snapshot.
func (m *Member) stage(ctx context.Context, content []byte, digest string) (Snapshot, error) {
	return m.cfg.Stage(content, digest, Ranks{m, ctx})
}

// claim claims one slot, and leaves m.slot at -1 if all have other owners.
func (m *Member) claim(ctx context.Context) error {
	first := m.cfg.Rank
	if first < 0 || first >= m.cfg.Ranks {
		h := fnv.New32a()
		h.Write([]byte(m.cfg.Identity))
		first = int(h.Sum32() % uint32(m.cfg.Ranks))
	}
	won, err := m.claimSlot(ctx, first)
	if won || err != nil {
		return err
	}
	var taken []string
	err = m.retryUntil(ctx, func(ctx context.Context) (err error) {
		taken, err = m.cfg.Store.List(ctx, m.keys.slots())
		return err
	})
	if err != nil {
		return err
	}
	for i := 1; i < m.cfg.Ranks; i++ {
		slot := (first + i) % m.cfg.Ranks
		if slices.Contains(taken, strconv.Itoa(slot)) {
			continue
		}
		won, err := m.claimSlot(ctx, slot)
		if won || err != nil {
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

// readContent returns a version's content if its digest is right.
func readContent(ctx context.Context, s getter, v VersionName) (content []byte, ok bool) {
	content, found, err := s.Get(ctx, v.Key())
	return content, err == nil && found && DigestOf(content) == v.Content
}
