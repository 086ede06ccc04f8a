package etcdstore

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

var _ agree.Records = (*View)(nil)

// A View reads what ranks have recorded. It writes nothing and holds no lease, so it keeps no record alive.
func TestLook(t *testing.T) {
	server := startEtcd(t)
	ctx := within(t, 2*time.Minute)
	config, err := Parse(server.url, environment())
	if err != nil {
		t.Fatal(err)
	}
	v := Look(config)
	defer v.Close()
	if made, err := v.Made(ctx, "c"); err != nil || len(made) != 0 {
		t.Errorf("%v, %v", made, err)
	}
	s := process(t, server.url)
	big := bytes.Repeat([]byte("policy "), maxRecord/10)
	for key, value := range map[string][]byte{"c/1-2/init": []byte("i"), "c/1-2/d/1": nil, "p/1-2.1": []byte("p"),
		"blob/abc": big} {
		if _, err := s.PutOnce(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	leases := func() int {
		etcd, err := v.conn.client(ctx)
		if err != nil {
			t.Fatal(err)
		}
		all, err := etcd.Leases(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return len(all.Leases)
	}
	revision := func() int64 {
		reply, err := v.get(ctx, "x", clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return reply.Header.Revision
	}
	had, was := leases(), revision()
	made, err := v.Made(ctx, "c")
	if keys := slices.Sorted(maps.Keys(made)); err != nil ||
		!slices.Equal(keys, []string{"c/1-2/d/1", "c/1-2/init"}) || !made["c/1-2/init"].IsZero() {
		t.Errorf("%v, %v", made, err)
	}
	if value, found, err := v.Get(ctx, "blob/abc"); err != nil || !found || !bytes.Equal(value, big) {
		t.Errorf("%d bytes, %v, %v", len(value), found, err)
	}
	if _, found, err := v.Get(ctx, "c/1-2/d/2"); err != nil || found {
		t.Errorf("%v, %v", found, err)
	}
	if leases() != had || revision() != was {
		t.Error("looking has written")
	}
}

// Below finds the stores of jobs under the site's prefix, up to two levels down. It leaves out what is deeper and the
// keys of other programs.
func TestBelow(t *testing.T) {
	server := startEtcd(t)
	ctx := within(t, 2*time.Minute)
	for _, store := range []string{"", "/4711", "/alice/run8", "/alice/run9", "/job7", "/a/b/c", "2/4712", "/4713\n"} {
		s := process(t, server.url+store)
		for _, key := range []string{"c/1-2/init", "c/1-2/slot/0", "blob/abc"} {
			if _, err := s.PutOnce(ctx, key, []byte(key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	config, err := Parse(server.url, environment())
	if err != nil {
		t.Fatal(err)
	}
	v := Look(config)
	defer v.Close()
	etcd, err := v.conn.client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"/test/alice/notes", "/test/x/y/z/epoch"} {
		if _, err := etcd.Put(ctx, key, ""); err != nil {
			t.Fatal(err)
		}
	}
	stores, unseen, err := v.Below(ctx)
	slices.Sort(stores)
	if want := []string{"", "4711", "alice/run8", "alice/run9", "job7"}; err != nil || !slices.Equal(stores, want) ||
		len(unseen) != 1 {
		t.Errorf("%q, want %q; %v, %v", stores, want, unseen, err)
	}
	if made, err := v.At("alice/run8").Made(ctx, "c"); err != nil || len(made) != 2 {
		t.Errorf("%v, %v", made, err)
	}
}
