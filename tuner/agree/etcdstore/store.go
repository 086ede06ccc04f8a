package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Store is the namespace of one communicator. Its first operation that succeeds
// makes this process a user of the namespace, until Close.
type Store struct {
	client *Client
	space  string // ends with a slash
	ttl    time.Duration

	ctx  context.Context // of all that runs
	stop context.CancelFunc
	runs sync.WaitGroup

	mu    sync.Mutex // held while entering; never across an operation
	epoch epoch
	gone  bool // the epoch has ended
}

// ErrExpired means that no process reached etcd for so long that it has dropped
// the communicator's records. Nothing can be agreed on any more.
var ErrExpired = errors.New("etcd has dropped the communicator's records: no rank has reached it for too long")

func newStore(c *Client, comm string, ttl time.Duration) *Store {
	s := &Store{client: c, space: c.prefix + "/" + comm + "/", ttl: ttl}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close ends the use of the records. They stay until the lease's time is over:
// other ranks may need them.
func (s *Store) Close() error {
	s.stop()
	s.runs.Wait()
	return nil
}

func (s *Store) record(key string) (string, error) {
	if key == "" || key[0] == '/' || path.Clean(key) != key || strings.HasPrefix(key, "..") {
		return "", fmt.Errorf("etcdstore: %q is no key", key)
	}
	return s.space + "r/" + key, nil
}

// PutOnce implements agree.Store.
func (s *Store) PutOnce(ctx context.Context, key string, value []byte) ([]byte, error) {
	name, err := s.record(key)
	if err != nil {
		return nil, err
	}
	e, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := s.split(ctx, e, value)
	if err != nil {
		return nil, err
	}
	stands, existed, err := s.putOnce(ctx, e, name, stored)
	if err != nil {
		return nil, err
	}
	if !existed {
		return value, nil
	}
	return s.join(ctx, e, stands)
}

// putOnce creates an etcd key on the epoch's lease unless it exists, in which case
// it returns what stands.
func (s *Store) putOnce(ctx context.Context, e epoch, name, value string) (stands []byte, existed bool, err error) {
	reply, err := e.etcd.Txn(ctx).
		If(e.holds(), clientv3.Compare(clientv3.CreateRevision(name), "=", 0)).
		Then(clientv3.OpPut(name, value, clientv3.WithLease(e.lease))).
		Else(clientv3.OpGet(e.key), clientv3.OpGet(name)).
		Commit()
	if err != nil {
		return nil, false, s.explain(err)
	}
	if reply.Succeeded {
		return nil, false, nil
	}
	now, found := reply.Responses[0].GetResponseRange().Kvs, reply.Responses[1].GetResponseRange().Kvs
	if len(now) == 0 || now[0].CreateRevision != e.revision || len(found) == 0 {
		return nil, false, s.expired()
	}
	return found[0].Value, true, nil
}

// ask does read-only operations while the epoch holds.
func (s *Store) ask(ctx context.Context, e epoch, op clientv3.Op) (*clientv3.GetResponse, error) {
	// A transaction that only reads is as linearizable as a get, and as cheap.
	reply, err := e.etcd.Txn(ctx).If(e.holds()).Then(op).Commit()
	if err != nil {
		return nil, s.explain(err)
	}
	if !reply.Succeeded {
		return nil, s.expired()
	}
	return (*clientv3.GetResponse)(reply.Responses[0].GetResponseRange()), nil
}

// Get implements agree.Store. Its answer is never out of date.
func (s *Store) Get(ctx context.Context, key string) ([]byte, bool, error) {
	name, err := s.record(key)
	if err != nil {
		return nil, false, err
	}
	e, err := s.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	reply, err := s.ask(ctx, e, clientv3.OpGet(name))
	if err != nil || len(reply.Kvs) == 0 {
		return nil, false, err
	}
	value, err := s.join(ctx, e, reply.Kvs[0].Value)
	return value, err == nil, err
}

// List implements agree.Store.
func (s *Store) List(ctx context.Context, dir string) ([]string, error) {
	name, err := s.record(dir)
	if err != nil {
		return nil, err
	}
	e, err := s.enter(ctx)
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

// Remove implements agree.Store.
func (s *Store) Remove(ctx context.Context, key string) error {
	name, err := s.record(key)
	if err != nil {
		return err
	}
	e, err := s.enter(ctx)
	if err != nil {
		return err
	}
	reply, err := e.etcd.Txn(ctx).If(e.holds()).Then(clientv3.OpDelete(name)).Commit()
	if err != nil {
		return s.explain(err)
	}
	if !reply.Succeeded {
		return s.expired()
	}
	return nil
}

// rewatch is the pause before a watch that etcd has ended begins anew.
const rewatch = time.Second

// Announce implements agree.Announcer.
func (s *Store) Announce(ctx context.Context, dir string, changed func()) {
	name, err := s.record(dir)
	if err != nil {
		return
	}
	for ; ctx.Err() == nil; pause(ctx, rewatch) {
		e, err := s.enter(ctx)
		if err != nil {
			continue
		}
		// A member of the cluster that has lost the others would stay silent.
		during, end := context.WithCancel(clientv3.WithRequireLeader(ctx))
		for range e.etcd.Watch(during, name+"/", clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithCreatedNotify()) {
			changed()
		}
		end()
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
