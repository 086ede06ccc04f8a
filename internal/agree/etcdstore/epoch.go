package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

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
