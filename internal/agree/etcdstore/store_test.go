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

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
)

var _ agree.Store = (*Store)(nil)

func TestContract(t *testing.T) {
	server := startEtcd(t)
	storetest.Contract(t, func(t *testing.T, name string) agree.Store {
		return process(t, fmt.Sprintf("%s%s/%x", Scheme, server.Address, t.Name()))
	})
}

func TestGroupOf(t *testing.T) {
	for key, want := range map[string]string{
		"c/00ff-8/init": "00ff-8", "c/00ff-8/a/1/0-00": "00ff-8", "p/00ff-8.12": "00ff-8",
		"p": shared, "blob/00ff": shared,
	} {
		if got := groupOf(key); got != want {
			t.Errorf("%s belongs to %q, want %q", key, got, want)
		}
	}
}

// TestCommunicatorsEndApart: the records of one go with its processes, whoever
// else uses the same etcd; what communicators share stays.
func TestCommunicatorsEndApart(t *testing.T) {
	s := process(t, startEtcd(t).url)
	for _, key := range []string{"c/ended/d/1", "p/ended.1", "c/alive/d/1", "p/alive.1", "blob/1"} {
		storetest.Put(t, s, key, "")
	}
	revoke(t, s, "ended")
	for key, want := range map[string]error{"c/ended/d/1": ErrExpired, "p/ended.1": ErrExpired, "c/alive/d/1": nil,
		"p/alive.1": nil, "blob/1": nil} {
		if _, found, err := s.Get(t.Context(), key); !errors.Is(err, want) || found != (want == nil) {
			t.Errorf("%s: found %v, %v", key, found, err)
		}
	}
	if names, err := s.List(t.Context(), "p"); len(names) != 1 || err != nil {
		t.Errorf("proposals: %q, %v", names, err)
	}
}

// revoke does what etcd does when a lease was not kept alive.
func revoke(t *testing.T, s *Store, group string) {
	t.Helper()
	e := s.epochs[group]
	if _, err := e.etcd.Revoke(t.Context(), e.lease); err != nil {
		t.Fatal(err)
	}
}

// TestExpiredRecords: who has outlived its records never takes them for absent,
// and nobody mixes them with those of a later life of the namespace.
func TestExpiredRecords(t *testing.T) {
	url := startEtcd(t).url
	old, other, idle := process(t, url), process(t, url), process(t, url)
	for _, s := range []*Store{old, other} {
		storetest.Put(t, s, "c/x/d/1", "commit")
	}
	etcd := old.epochs["x"].etcd
	revoke(t, old, "x")
	left, err := etcd.Get(t.Context(), old.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
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
	t.Parallel()
	url := startEtcd(t).url
	c, err := Parse(url, environment())
	if err != nil {
		t.Fatal(err)
	}
	// Each process renews its lease in time even where it seldom gets a processor.
	const ttl = 5 * time.Second
	writer, reader := open(c, ttl), open(c, ttl)
	defer reader.Close()
	storetest.Put(t, writer, "c/x/d/1", "commit")
	if value, _, err := reader.Get(t.Context(), "c/x/d/1"); string(value) != "commit" || err != nil {
		t.Fatalf("%q, %v", value, err)
	}
	writer.Close()
	// The reader alone keeps the lease for longer than it lasts.
	for began := time.Now(); time.Since(began) < 2*ttl; {
		if value, found, err := reader.Get(t.Context(), "c/x/d/1"); string(value) != "commit" || !found || err != nil {
			t.Fatalf("%v after the writer left: %q, %v, %v", time.Since(began), value, found, err)
		}
		time.Sleep(50 * time.Millisecond) // the server counts down the lease in real time
	}
	observer, err := process(t, url).conn.client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone := observer.Watch(within(t, time.Minute), c.Prefix, clientv3.WithPrefix(), clientv3.WithFilterPut())
	reader.Close()
	if _, ok := <-gone; !ok {
		t.Error("the records outlive the last process")
	}
}

// TestAway: operations end with their context while etcd is away, know nothing, and
// succeed when it is back with what it knew.
func TestAway(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	t.Parallel()
	server := startEtcd(t)
	s, late := process(t, server.url), process(t, server.url)
	storetest.Put(t, s, "c/x/d/1", "commit")
	server.Kill()
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
	server.Start()
	for _, s := range []*Store{s, late} {
		ctx := within(t, 2*time.Minute)
		value, found, err := s.Get(ctx, "c/x/d/1")
		for err != nil && ctx.Err() == nil {
			value, found, err = s.Get(ctx, "c/x/d/1")
		}
		if string(value) != "commit" || !found || err != nil {
			t.Errorf("afterwards: %q, %v, %v", value, found, err)
		}
	}
}

// TestFull: an etcd without room takes no records, says so, and still tells those that
// it has.
func TestFull(t *testing.T) {
	etcd := storetest.StartEtcd(t, "http", "--quota-backend-bytes=4000000")
	url := Scheme + etcd.Address + "/test"
	s := process(t, url)
	storetest.Put(t, s, "c/x/slot/0", "first")
	ctx := within(t, 2*time.Minute)
	var err error
	for i := 0; err == nil; i++ {
		_, err = s.PutOnce(ctx, fmt.Sprint("blob/", i), bytes.Repeat([]byte{'x'}, maxRecord))
	}
	if !errors.Is(err, agree.ErrRefused) {
		t.Errorf("a blob: %v", err)
	}
	if got := storetest.Put(t, s, "c/x/slot/0", "second"); got != "first" {
		t.Errorf("%q stands", got)
	}
	if _, err := s.PutOnce(ctx, "c/x/m/1/0", nil); !errors.Is(err, agree.ErrRefused) {
		t.Errorf("a record: %v", err)
	}
	// Nor does one that begins to use it.
	if _, err := process(t, url).PutOnce(ctx, "c/y/init", []byte("A")); !errors.Is(err, agree.ErrRefused) {
		t.Errorf("the first record of a communicator: %v", err)
	}
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
	s := Open(config)
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
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	storetest.Race(t, processes(t, "race", startEtcd(t).url, 4))
}

func TestProcessesAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	t.Parallel()
	storetest.Agreement(t, processes(t, "rank", startEtcd(t).url, agreeing), nil)
}

// TestScenario42EtcdRestart kills etcd in the middle of a change.
func TestScenario42EtcdRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	t.Parallel()
	server := startEtcd(t)
	storetest.Agreement(t, processes(t, "rank", server.url, agreeing), func() {
		server.Kill()
		server.Start()
	})
}
