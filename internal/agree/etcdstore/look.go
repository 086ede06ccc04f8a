package etcdstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// View is an etcd for a tool that is no rank. It joins no epoch, so it keeps no record alive.
type View struct {
	conn   *connection
	prefix string
}

// Look returns at once, whether or not etcd can be reached: the operations find out.
func Look(c Config) *View { return &View{connect(c), c.Prefix} }

// Close ends the connection.
func (v *View) Close() { v.conn.close() }

func (v *View) get(ctx context.Context, name string, more ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	etcd, err := v.conn.client(ctx)
	if err == nil {
		var reply *clientv3.GetResponse
		if reply, err = etcd.Get(ctx, name, more...); err == nil {
			return reply, nil
		}
	}
	return nil, v.conn.trouble.explain(err)
}

// How far Below looks: jobs have prefixes such as PREFIX/JOB or PREFIX/USER/JOB.
const (
	belowDepth = 2
	belowMost  = 1000 // stores
)

// sections are what a store has below its prefix.
var sections = []string{"epoch", "part", "r"}

// Below lists where records are, relative to the view's prefix: "" for that prefix itself, and "JOB" and "USER/JOB".
// It asks for one key at a time and skips the rest of that store, so the stores may be large. unseen lists what it
// leaves out.
func (v *View) Below(ctx context.Context) (stores []string, unseen []error, err error) {
	root, known := v.prefix+"/", map[string]bool{}
	for from := root; ; {
		reply, err := v.get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(root)), clientv3.WithLimit(1),
			clientv3.WithKeysOnly())
		if err != nil {
			return nil, nil, err
		}
		if len(reply.Kvs) == 0 {
			return stores, unseen, nil
		}
		parts := strings.Split(strings.TrimPrefix(string(reply.Kvs[0].Key), root), "/")
		parts = parts[:min(len(parts), belowDepth+1)]
		depth := slices.IndexFunc(parts, func(part string) bool { return slices.Contains(sections, part) })
		if depth >= 0 {
			parts = parts[:depth+1]
		}
		from = clientv3.GetPrefixRangeEnd(root + strings.Join(parts, "/") + "/")
		if depth < 0 {
			continue // another program's
		}
		store := strings.Join(parts[:depth], "/")
		switch {
		case known[store]:
		case strings.ContainsFunc(store, unicode.IsControl): // it would forge lines of what is printed
			unseen = append(unseen, fmt.Errorf("%q in %s: control characters in the name", store, v.prefix))
		case len(stores) == belowMost:
			return stores, append(unseen, fmt.Errorf("%s has more than %d jobs, and the rest was not looked at (name "+
				"a job's own prefix)", v.prefix, belowMost)), nil
		default:
			stores = append(stores, store)
		}
		known[store] = true
	}
}

// At returns a view of a store that Below has found. It shares the connection.
func (v *View) At(store string) *View {
	if store == "" {
		return v
	}
	return &View{v.conn, v.prefix + "/" + store}
}

// Made implements agree.Records. etcd does not tell when a record was made.
func (v *View) Made(ctx context.Context, dir string) (map[string]time.Time, error) {
	root := v.prefix + "/r/"
	reply, err := v.get(ctx, root+dir+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	made := map[string]time.Time{}
	for _, kv := range reply.Kvs {
		made[strings.TrimPrefix(string(kv.Key), root)] = time.Time{}
	}
	return made, nil
}

// Get implements agree.Records.
func (v *View) Get(ctx context.Context, key string) ([]byte, bool, error) {
	reply, err := v.get(ctx, v.prefix+"/r/"+key)
	if err != nil || len(reply.Kvs) == 0 {
		return nil, false, err
	}
	return reply.Kvs[0].Value, true, nil
}
