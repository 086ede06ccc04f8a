package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree/storetest"
)

var _ agree.Announcer = (*Store)(nil)

func TestContract(t *testing.T) {
	url := startEtcd(t, false).url()
	storetest.Contract(t, func(t *testing.T, name string) agree.Store { return use(t, connect(t, url), "") })
}

// TestCommunicatorsAreApart: records of one are not seen by another, on whose
// lease they do not hang.
func TestCommunicatorsAreApart(t *testing.T) {
	c := connect(t, startEtcd(t, false).url())
	one, two := use(t, c, "1-8"), use(t, c, "11-8")
	storetest.Put(t, one, "c/x/init", "one")
	if got := storetest.Put(t, two, "c/x/init", "two"); got != "two" {
		t.Errorf("stands %q", got)
	}
}

// TestExpiredRecords: who has outlived its records never takes them for absent,
// and nobody mixes them with those of a later life of the namespace.
func TestExpiredRecords(t *testing.T) {
	c := connect(t, startEtcd(t, false).url())
	old, other, idle := use(t, c, "comm"), use(t, c, "comm"), use(t, c, "comm")
	for _, s := range []*Store{old, other} {
		storetest.Put(t, s, "c/x/d/1", "commit")
	}
	storetest.Put(t, old, "blob/1", string(bytes.Repeat([]byte{'x'}, 3*partBytes)))
	if _, err := c.etcd.Revoke(t.Context(), old.epoch.lease); err != nil {
		t.Fatal(err)
	}
	left, err := c.etcd.Get(t.Context(), c.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil || len(left.Kvs) > 0 {
		t.Errorf("the lease leaves behind %v, %v", left.Kvs, err)
	}
	check := func(when string, s *Store) {
		t.Helper()
		_, err := s.PutOnce(t.Context(), "c/x/d/1", []byte("abort"))
		_, found, errGet := s.Get(t.Context(), "c/x/d/1")
		_, errList := s.List(t.Context(), "c/x/d")
		errRemove := s.Remove(t.Context(), "c/x/d/1")
		for _, err := range []error{err, errGet, errList, errRemove} {
			if !errors.Is(err, ErrExpired) || found {
				t.Errorf("%s: found %v, %v", when, found, err)
			}
		}
	}
	check("after the end", old)
	if got := storetest.Put(t, idle, "c/x/d/1", "abort"); got != "abort" {
		t.Errorf("a new life begins with %q", got)
	}
	check("in a new life", old)
	if _, found, err := other.Get(t.Context(), "c/x/d/1"); !errors.Is(err, ErrExpired) || found {
		t.Errorf("first asked in a new life: found %v, %v", found, err)
	}
	check("in a new life", other)
}

// TestRecordsGoAfterTheLastProcess, and not after the one that wrote them.
func TestRecordsGoAfterTheLastProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases to end: some seconds")
	}
	c := connect(t, startEtcd(t, false).url())
	const ttl = 2 * time.Second // the least that etcd gives
	writer := newStore(c, "comm", ttl)
	reader := newStore(c, "comm", ttl)
	defer reader.Close()
	storetest.Put(t, writer, "c/x/d/1", "commit")
	if value, _, err := reader.Get(t.Context(), "c/x/d/1"); string(value) != "commit" || err != nil {
		t.Fatalf("%q, %v", value, err)
	}
	writer.Close()
	// The reader alone keeps the lease for several of its lengths.
	for began := time.Now(); time.Since(began) < 3*ttl; {
		if value, found, err := reader.Get(t.Context(), "c/x/d/1"); string(value) != "commit" || !found || err != nil {
			t.Fatalf("%v after the writer left: %q, %v, %v", time.Since(began), value, found, err)
		}
		pause(t.Context(), 50*time.Millisecond)
	}
	gone := c.etcd.Watch(within(t, 20*time.Second), c.prefix, clientv3.WithPrefix(), clientv3.WithFilterPut())
	reader.Close()
	if _, ok := <-gone; !ok {
		t.Error("the records outlive the last process")
	}
}

// TestAway: operations end with their context while etcd is away, know nothing, and
// succeed when it is back with what it knew.
func TestAway(t *testing.T) {
	server := startEtcd(t, false)
	c := connect(t, server.url())
	s, late := use(t, c, "comm"), use(t, c, "comm")
	storetest.Put(t, s, "c/x/d/1", "commit")
	server.kill()
	for name, op := range map[string]func(ctx context.Context, s *Store) error{
		"put":    func(ctx context.Context, s *Store) error { _, err := s.PutOnce(ctx, "c/x/d/1", nil); return err },
		"get":    func(ctx context.Context, s *Store) error { _, _, err := s.Get(ctx, "c/x/d/1"); return err },
		"list":   func(ctx context.Context, s *Store) error { _, err := s.List(ctx, "c/x/d"); return err },
		"remove": func(ctx context.Context, s *Store) error { return s.Remove(ctx, "c/x/a/1/0") },
	} {
		for _, s := range []*Store{s, late} {
			ctx := within(t, 300*time.Millisecond)
			if err := op(ctx, s); err == nil {
				t.Errorf("%s succeeds without etcd", name)
			}
		}
	}
	server.start()
	for _, s := range []*Store{s, late} {
		ctx := within(t, 30*time.Second)
		value, found, err := s.Get(ctx, "c/x/d/1")
		for err != nil && ctx.Err() == nil {
			value, found, err = s.Get(ctx, "c/x/d/1")
		}
		if string(value) != "commit" || !found || err != nil {
			t.Errorf("afterwards: %q, %v, %v", value, found, err)
		}
	}
}

func TestAnnounce(t *testing.T) {
	server := startEtcd(t, false)
	c := connect(t, server.url())
	s, other := use(t, c, "comm"), use(t, c, "comm")
	ctx, end := context.WithCancel(t.Context())
	told, done := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(done)
		s.Announce(ctx, "p", func() { told <- struct{}{} })
	}()
	await := func(what string) {
		t.Helper()
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			t.Fatalf("not told of %s", what)
		}
	}
	await("the beginning")
	storetest.Put(t, other, "c/x/init", "")
	storetest.Put(t, other, "p/x.1", "")
	await("a proposal")
	select {
	case <-told:
		t.Error("told of a record that is no proposal")
	default:
	}
	server.kill()
	server.start()
	for ctx := within(t, 30*time.Second); ; {
		_, err := other.PutOnce(ctx, "p/x.2", nil)
		if err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	await("a proposal after a restart")
	end()
	<-done
}

const (
	envRole = "ETCDSTORE_TEST_ROLE"
	envURL  = "ETCDSTORE_TEST_URL"
	envName = "ETCDSTORE_TEST_NAME"
)

const agreeing = 3

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := part(role); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// part is what another process of a test does.
func part(role string) error {
	config, err := Parse(os.Getenv(envURL), os.Getenv)
	if err != nil {
		return err
	}
	c := Connect(config)
	defer c.Close()
	s := c.Store("comm")
	defer s.Close()
	if role == "race" {
		return storetest.RacePart(s, os.Getenv(envName))
	}
	var rank int
	fmt.Sscan(os.Getenv(envName), &rank)
	return storetest.RankPart(s, agree.Etcd, rank, agreeing)
}

func processes(t *testing.T, role, url string, n int) (all []*storetest.Process) {
	for i := range n {
		all = append(all, storetest.Start(t, envRole+"="+role, envURL+"="+url, envName+"="+fmt.Sprint(i)))
	}
	return all
}

func TestProcessesRace(t *testing.T) {
	storetest.Race(t, processes(t, "race", startEtcd(t, false).url(), 4))
}

func TestProcessesAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	storetest.Agreement(t, processes(t, "rank", startEtcd(t, false).url(), agreeing), nil)
}

// TestScenario42EtcdRestart kills etcd in the middle of a change.
func TestScenario42EtcdRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	server := startEtcd(t, false)
	storetest.Agreement(t, processes(t, "rank", server.url(), agreeing), func() {
		server.kill()
		server.start()
	})
}
