package etcdstore

import (
	"context"
	"errors"
	"io"
	"sync"
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

	mu      sync.Mutex
	etcd    *clientv3.Client // nil until a connection was prepared
	attempt *attempt         // to prepare one; nil if none is under way
	closed  bool
}

// attempt prepares a connection. Without a user that takes no time, with one it
// asks etcd for a token.
type attempt struct {
	done chan struct{}
	etcd *clientv3.Client
	err  error
}

func connect(c Config) *connection {
	conn := &connection{trouble: trouble{user: c.User}}
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
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxBackoff},
				MinConnectTimeout: dialLimit,
			}),
			grpc.WithContextDialer(conn.trouble.dial),
			grpc.WithTransportCredentials(conn.trouble.credentials(c.TLS)),
		},
	}
	return conn
}

// client waits for the connection to be prepared.
func (c *connection) client(ctx context.Context) (*clientv3.Client, error) {
	c.mu.Lock()
	if c.etcd != nil || c.closed {
		defer c.mu.Unlock()
		if c.closed {
			return nil, errClosed
		}
		return c.etcd, nil
	}
	a := c.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		c.attempt = a
		go c.prepare(a)
	}
	c.mu.Unlock()
	select {
	case <-a.done:
		return a.etcd, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errClosed = errors.New("etcdstore: closed")

func (c *connection) prepare(a *attempt) {
	defer close(a.done)
	a.etcd, a.err = clientv3.New(c.config)
	if a.err != nil {
		a.err = c.trouble.explain(a.err)
	} else {
		c.trouble.accepted()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt = nil
	if a.err == nil && c.closed {
		a.etcd.Close()
		a.etcd, a.err = nil, errClosed
	}
	c.etcd = a.etcd
}

// close ends the connection. An attempt to connect ends within seconds.
func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	etcd, a := c.etcd, c.attempt
	c.mu.Unlock()
	if etcd != nil {
		etcd.Close()
	}
	if a != nil {
		<-a.done
	}
}
