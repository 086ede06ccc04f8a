// Package etcdstore keeps the records of agreeing ranks in etcd, version 3.4 and later. It serves jobs on
// several machines that share no file system.
//
// A Store lives from Open to Close, and any goroutine may use it. It owns its connection and
// a goroutine for each lease that it keeps alive. A View is for tools that only look.
//
// Below the URL's prefix lie
//
//	epoch/<group>  who uses the group's records: a lease
//	r/<key>        a record
//
// The records of a communicator are one group. The contents of versions, which communicators share, are
// another. All keys of a group have the lease of its epoch, which every process that uses the group keeps
// alive. So a record stays while any process needs it, whoever wrote it. It goes some minutes after the last
// process has gone.
//
// The lease can end too early only if no process reaches etcd for that long while etcd itself runs. So the
// transaction of each operation asks whether the epoch is still the one that this process began with. If not,
// the operation fails, and so do all later ones of the group. A process that has outlived its records must
// not take a deleted decision for one that was never made.
package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// Store is an etcd as one process uses it. The first operation that succeeds on a
// group of records makes the process one of the group's users, until Close.
type Store struct {
	conn   *connection
	prefix string
	ttl    time.Duration // of leases

	ctx  context.Context // of all that runs
	stop context.CancelFunc
	runs sync.WaitGroup

	mu     sync.Mutex // never held during an operation
	epochs map[string]*epoch
}

// ErrExpired means that etcd has dropped the communicator's records, because no process reached it for too
// long. The ranks can agree on nothing any more.
var ErrExpired = errors.New("etcd has dropped the communicator's records: no rank has reached it for too long")

// Open returns at once, whether or not etcd can be reached. The operations find that out.
func Open(c Config) *Store { return open(c, leaseTTL) }

func open(c Config, ttl time.Duration) *Store {
	s := &Store{conn: connect(c), prefix: c.Prefix, ttl: ttl, epochs: map[string]*epoch{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close ends the use of the records. They stay until their leases end: other ranks
// may need them.
func (s *Store) Close() {
	s.stop()
	s.conn.close()
	s.runs.Wait()
}

// shared is the group of the records that belong to no communicator. No communicator has this name.
const shared = "shared"

// groupOf is the communicator that a record belongs to.
func groupOf(key string) string {
	k, _ := agree.ParseKey(key)
	return cmp.Or(k.Comm, shared)
}

// use returns etcd's key of a record and the epoch of its group.
func (s *Store) use(ctx context.Context, key string) (name string, e *epoch, err error) {
	if key == "" || key[0] == '/' || path.Clean(key) != key || strings.HasPrefix(key, "..") {
		return "", nil, fmt.Errorf("etcdstore: %q is no key", key)
	}
	e, err = s.enter(ctx, groupOf(key))
	return s.prefix + "/r/" + key, e, err
}

// maxRecord is the largest value of a record. etcd takes requests of up to 1.5 MiB.
const maxRecord = 1 << 20

// PutOnce implements agree.Store. The record has the epoch's lease.
func (s *Store) PutOnce(ctx context.Context, key string, value []byte) ([]byte, error) {
	if len(value) > maxRecord {
		return nil, fmt.Errorf("%w of more than %d MiB", agree.ErrRefused, maxRecord>>20)
	}
	name, e, err := s.use(ctx, key)
	if err != nil {
		return nil, err
	}
	put := clientv3.OpPut(name, string(value), clientv3.WithLease(e.lease))
	absent := clientv3.Compare(clientv3.CreateRevision(name), "=", 0)
	reply, err := s.txn(ctx, e, absent, []clientv3.Op{put}, clientv3.OpGet(name))
	if errors.Is(err, agree.ErrRefused) { // the record may be there all the same
		if there, err := s.ask(ctx, e, clientv3.OpGet(name)); err == nil && len(there.Kvs) > 0 {
			return there.Kvs[0].Value, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if reply.Succeeded {
		return value, nil
	}
	return reply.Responses[0].GetResponseRange().Kvs[0].Value, nil
}

// txn does then if the epoch lasts and the condition holds. If only the epoch lasts, the reply
// has not succeeded and holds what otherwise reads.
func (s *Store) txn(ctx context.Context, e *epoch, condition clientv3.Cmp, then []clientv3.Op,
	otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	otherwise = append(otherwise, clientv3.OpGet(e.key))
	reply, err := e.etcd.Txn(ctx).If(e.holds(), condition).Then(then...).Else(otherwise...).Commit()
	if err != nil {
		return nil, s.explain(e, err)
	}
	if !reply.Succeeded {
		now := reply.Responses[len(otherwise)-1].GetResponseRange().Kvs
		if len(now) == 0 || now[0].CreateRevision != e.revision {
			return nil, s.expired(e)
		}
	}
	return reply, nil
}

// do does operations if the epoch lasts.
func (s *Store) do(ctx context.Context, e *epoch, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return s.txn(ctx, e, e.holds(), ops)
}

// ask reads. A transaction that only reads is as linearizable as a get, and as cheap.
func (s *Store) ask(ctx context.Context, e *epoch, get clientv3.Op) (*clientv3.GetResponse, error) {
	reply, err := s.do(ctx, e, get)
	if err != nil {
		return nil, err
	}
	return (*clientv3.GetResponse)(reply.Responses[0].GetResponseRange()), nil
}

// Get implements agree.Store. Its answer is never out of date.
func (s *Store) Get(ctx context.Context, key string) ([]byte, bool, error) {
	name, e, err := s.use(ctx, key)
	if err != nil {
		return nil, false, err
	}
	reply, err := s.ask(ctx, e, clientv3.OpGet(name))
	if err != nil || len(reply.Kvs) == 0 {
		return nil, false, err
	}
	return reply.Kvs[0].Value, true, nil
}

// List implements agree.Store.
func (s *Store) List(ctx context.Context, dir string) ([]string, error) {
	name, e, err := s.use(ctx, dir)
	if err != nil {
		return nil, err
	}
	name += "/"
	reply, err := s.ask(ctx, e, clientv3.OpGet(name, clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, kv := range reply.Kvs {
		if last := string(kv.Key[len(name):]); !strings.Contains(last, "/") {
			names = append(names, last)
		}
	}
	return names, nil
}

// Move implements agree.Store.
func (s *Store) Move(ctx context.Context, from, to string) error {
	source, e, err := s.use(ctx, from)
	if err != nil {
		return err
	}
	target, _, err := s.use(ctx, to)
	if err != nil {
		return err
	}
	found, err := s.ask(ctx, e, clientv3.OpGet(source))
	if err != nil {
		return err
	}
	if len(found.Kvs) == 0 {
		return agree.ErrNoRecord
	}
	revision := found.Kvs[0].CreateRevision
	put := clientv3.OpPut(target, moved+strconv.FormatInt(revision, 10), clientv3.WithLease(e.lease))
	there := clientv3.Compare(clientv3.CreateRevision(source), "=", revision)
	reply, err := s.txn(ctx, e, there, []clientv3.Op{clientv3.OpDelete(source), put})
	if err == nil && !reply.Succeeded {
		return agree.ErrNoRecord
	}
	return err
}

// moved begins the value of a record that was moved; its mark follows. Only records
// without a value are moved.
const moved = "moved "

// Mark implements agree.Store: by the revision at which etcd created the record.
func (s *Store) Mark(ctx context.Context, key string) (string, error) {
	name, e, err := s.use(ctx, key)
	if err != nil {
		return "", err
	}
	reply, err := s.ask(ctx, e, clientv3.OpGet(name))
	if err != nil || len(reply.Kvs) == 0 {
		return "", err
	}
	if mark, ok := strings.CutPrefix(string(reply.Kvs[0].Value), moved); ok {
		return mark, nil
	}
	return strconv.FormatInt(reply.Kvs[0].CreateRevision, 10), nil
}

// Remove implements agree.Store. Where all records of a communicator are removed, their lease ends,
// which no process keeps alive from then on.
func (s *Store) Remove(ctx context.Context, key string) error {
	name, e, err := s.use(ctx, key)
	if err != nil {
		return err
	}
	if key == agree.CommsDir+"/"+e.group {
		_, err = e.etcd.Revoke(ctx, e.lease)
		if err == nil {
			_ = s.expired(e)
		}
		return err
	}
	_, err = s.do(ctx, e, clientv3.OpDelete(name), clientv3.OpDelete(name+"/", clientv3.WithPrefix()))
	return err
}

// leaseTTL is how long the records outlive the last process that keeps them, and
// how long all processes together may be without etcd. It is much longer than a
// rank waits for the store.
const leaseTTL = 10 * time.Minute

// keepRetry is the pause after a failed attempt to keep the lease alive.
const keepRetry = 5 * time.Second

// epoch is one life of a group of records: from the first process that uses it
// until etcd has dropped all of it.
type epoch struct {
	etcd     *clientv3.Client
	group    string
	key      string
	revision int64 // at which etcd created key; no two epochs have the same
	lease    clientv3.LeaseID
	over     atomic.Bool
}

// holds is true while this epoch lasts.
func (e *epoch) holds() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.revision)
}

// enter returns the epoch of the group that this process belongs to; the first
// time, it joins the one that there is, or begins one.
func (s *Store) enter(ctx context.Context, group string) (*epoch, error) {
	s.mu.Lock()
	e := s.epochs[group]
	s.mu.Unlock()
	if e != nil {
		if e.over.Load() {
			return nil, ErrExpired
		}
		return e, nil
	}
	etcd, err := s.conn.client(ctx)
	if err == nil {
		e, err = s.begin(ctx, etcd, group)
	}
	if err != nil {
		return nil, s.explain(nil, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	// Two operations may both come here. Either both found the same epoch, or the second
	// found a later one, which this process does not use.
	if s.epochs[group] == nil {
		s.epochs[group] = e
		s.runs.Go(func() { s.keep(e) })
	}
	return s.epochs[group], nil
}

func (s *Store) begin(ctx context.Context, etcd *clientv3.Client, group string) (*epoch, error) {
	key := s.prefix + "/epoch/" + group
	found, err := etcd.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(found.Kvs) == 0 {
		lease, err := etcd.Grant(ctx, int64(s.ttl/time.Second))
		if err != nil {
			return nil, err
		}
		reply, err := etcd.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, strconv.FormatInt(int64(lease.ID), 16), clientv3.WithLease(lease.ID))).
			Commit()
		if err != nil {
			return nil, err // the lease ends by itself if nothing hangs on it
		}
		if reply.Succeeded {
			return &epoch{etcd: etcd, group: group, key: key, revision: reply.Header.Revision, lease: lease.ID}, nil
		}
		_, _ = etcd.Revoke(ctx, lease.ID) // else it ends by itself
		if found, err = etcd.Get(ctx, key); err != nil {
			return nil, err
		}
		if len(found.Kvs) == 0 {
			return nil, errors.New("etcd: an epoch began and ended at once")
		}
	}
	kv := found.Kvs[0]
	lease, err := strconv.ParseInt(string(kv.Value), 16, 64)
	if err != nil {
		return nil, fmt.Errorf("etcd: %s does not hold a lease; does something else use this prefix?", key)
	}
	// If it is about to end, this fails, and the next attempt finds no epoch.
	if _, err := etcd.KeepAliveOnce(ctx, clientv3.LeaseID(lease)); err != nil {
		return nil, err
	}
	return &epoch{etcd: etcd, group: group, key: key, revision: kv.CreateRevision, lease: clientv3.LeaseID(lease)}, nil
}

// keep keeps the epoch's lease alive for as long as this process uses it.
func (s *Store) keep(e *epoch) {
	for wait := s.ttl / 3; ; {
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return
		}
		ctx, end := context.WithTimeout(s.ctx, keepRetry)
		_, err := e.etcd.KeepAliveOnce(ctx, e.lease)
		end()
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			_ = s.expired(e) // the next operation of the group fails
			return
		case err != nil:
			wait = min(keepRetry, s.ttl/3)
		default:
			wait = s.ttl / 3
		}
	}
}

// expired notes that the epoch has ended, for good.
func (s *Store) expired(e *epoch) error {
	e.over.Store(true)
	return ErrExpired
}

// explain returns what an error of etcd means here. e is nil before the epoch is known.
func (s *Store) explain(e *epoch, err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) && e != nil {
		return s.expired(e) // within the transaction
	}
	return s.conn.trouble.explain(err)
}
