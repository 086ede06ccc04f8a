package etcdstore

import (
	"context"
	"errors"
	"io"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/grpclog"
)

// gRPC writes what goes wrong to stderr, which belongs to the host process.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }

const (
	// dialLimit bounds one attempt to reach a member of the etcd cluster.
	dialLimit = 3 * time.Second
	// maxBackoff is the longest pause between attempts. gRPC's own two minutes are
	// as long as a rank may wait at S.
	maxBackoff = 2 * time.Second
	// A server that went away without a word is found out by pings; etcd takes more
	// than one in 5 s for an attack.
	pingEvery = 10 * time.Second
	pingLimit = 5 * time.Second
)

// connection is a way to etcd.
type connection struct {
	config  clientv3.Config
	trouble trouble

	turn   chan struct{}    // held by whoever uses what follows
	etcd   *clientv3.Client // nil until it was prepared
	closed bool
}

func connect(c Config) *connection {
	conn := &connection{trouble: trouble{user: c.User}, turn: make(chan struct{}, 1)}
	conn.config = clientv3.Config{
		Endpoints:            c.Endpoints,
		TLS:                  c.TLS,
		Username:             c.User,
		Password:             c.Password,
		DialTimeout:          dialLimit,
		DialKeepAliveTime:    pingEvery,
		DialKeepAliveTimeout: pingLimit,
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
					MaxDelay: maxBackoff},
				MinConnectTimeout: dialLimit,
			}),
			grpc.WithContextDialer(conn.trouble.dial),
			grpc.WithTransportCredentials(conn.trouble.credentials(c.TLS)),
		},
	}
	return conn
}

var errClosed = errors.New("etcdstore: closed")

// client returns etcd's client, which the first call prepares. Without a user that takes no time; with
// one it asks etcd for a token, for up to dialLimit.
func (c *connection) client(ctx context.Context) (*clientv3.Client, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.closed {
		return nil, errClosed
	}
	if c.etcd != nil {
		return c.etcd, nil
	}
	config := c.config
	if at, ok := ctx.Deadline(); ok {
		config.DialTimeout = min(dialLimit, max(time.Until(at), time.Millisecond))
	}
	etcd, err := clientv3.New(config)
	if err != nil {
		return nil, c.trouble.explain(err)
	}
	c.trouble.accepted()
	c.etcd = etcd
	return etcd, nil
}

// close ends the connection.
func (c *connection) close() {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	if c.etcd != nil {
		c.etcd.Close()
	}
}
