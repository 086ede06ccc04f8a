package etcdstore

import (
	"context"
	"strings"
	"time"

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
