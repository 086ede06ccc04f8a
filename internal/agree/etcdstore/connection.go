package etcdstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// The schemes of a URL that names an etcd.
const (
	Scheme    = "etcd://"
	SchemeTLS = "etcds://"
)

// DefaultPrefix is used where the URL has no path.
const DefaultPrefix = "/nccl-tuner-go"

// The environment variables, which are those of etcdctl.
const (
	envCACert   = "ETCDCTL_CACERT"
	envCert     = "ETCDCTL_CERT"
	envKey      = "ETCDCTL_KEY"
	envUser     = "ETCDCTL_USER"
	envPassword = "ETCDCTL_PASSWORD"
)

// Config says where an etcd is and who we are to it.
type Config struct {
	Endpoints []string // scheme, host and port
	Prefix    string   // of all keys; begins with a slash and does not end with one
	TLS       *tls.Config
	User      string
	Password  string
}

// Parse reads
//
//	etcd://host1:2379,host2:2379/prefix
//	etcds://host1:2379/prefix               the same over TLS
//
// and the variables of etcdctl: ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY for
// TLS, ETCDCTL_USER (name or name:password) and ETCDCTL_PASSWORD. A URL holds no
// password: it shows in logs.
func Parse(url string, getenv func(string) string) (Config, error) {
	c, err := parse(url, getenv)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", wording.HideSecrets(url), err)
	}
	return c, nil
}

func parse(url string, getenv func(string) string) (c Config, err error) {
	rest, secure := strings.CutPrefix(url, SchemeTLS)
	if !secure {
		var ok bool
		if rest, ok = strings.CutPrefix(url, Scheme); !ok {
			return c, fmt.Errorf("not the URL of an etcd (%shost:port/prefix, or %s for TLS)", Scheme, SchemeTLS)
		}
	}
	hosts, prefix, _ := strings.Cut(rest, "/")
	if strings.Contains(rest, "@") { // not in hosts only: a password may hold a slash
		return c, fmt.Errorf("a user does not belong into the address: set %s and %s", envUser, envPassword)
	}
	if strings.ContainsAny(rest, "?#") {
		return c, errors.New("? and # mean nothing here")
	}
	c.Prefix = path.Clean("/" + prefix)
	if c.Prefix == "/" {
		c.Prefix = DefaultPrefix
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if name, port, err := net.SplitHostPort(host); err != nil || name == "" || port == "" {
			return c, fmt.Errorf("%q is not host:port (etcd's usual port is 2379)", host)
		}
		c.Endpoints = append(c.Endpoints, scheme+host)
	}
	name, password, both := strings.Cut(getenv(envUser), ":")
	c.User, c.Password = name, cmp.Or(password, getenv(envPassword))
	switch {
	case c.User == "" && c.Password != "":
		return c, fmt.Errorf("%s is set without %s", envPassword, envUser)
	case c.User != "" && c.Password == "":
		return c, fmt.Errorf("%s names %s, but there is no password: set %s", envUser, c.User, envPassword)
	case both && getenv(envPassword) != "" && getenv(envPassword) != password:
		return c, fmt.Errorf("%s and %s hold different passwords", envUser, envPassword)
	}
	if secure {
		c.TLS, err = readTLS(getenv)
		return c, err
	}
	for _, name := range []string{envCACert, envCert, envKey} {
		if getenv(name) != "" {
			return c, fmt.Errorf("%s is set, but this URL means a connection without TLS: write %s", name, SchemeTLS)
		}
	}
	return c, nil
}

// mostPEM bounds a file of certificates; that of all public authorities has 200 KiB.
const mostPEM = 8 << 20

func readTLS(getenv func(string) string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := getenv(envCACert); file != "" {
		text, err := safefile.Read(file, mostPEM)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", envCACert, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s holds no certificate in PEM", envCACert, file)
		}
	}
	cert, key := getenv(envCert), getenv(envKey)
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%s and %s belong together, and only one is set", envCert, envKey)
	}
	if cert != "" {
		certText, err1 := safefile.Read(cert, mostPEM)
		keyText, err2 := safefile.Read(key, mostPEM)
		pair, err := tls.X509KeyPair(certText, keyText)
		if err := cmp.Or(err1, err2, err); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", envCert, envKey, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

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
	conn := &connection{trouble: trouble{user: c.User, hungUp: "does it want TLS, that is, " + SchemeTLS + "?"},
		turn: make(chan struct{}, 1)}
	if c.TLS != nil {
		conn.trouble.hungUp = "does it want a client certificate, " + envCert + "?"
	}
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
			grpc.WithChainUnaryInterceptor(conn.trouble.invoke),
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

// trouble remembers why the last attempt to connect failed. An operation waits for a connection until its
// context ends, and the error of etcd's client says only that.
type trouble struct {
	user    string // whom this process connects as
	hungUp  string // the likely reason if etcd hangs up at once
	mu      sync.Mutex
	last    error
	refusal error // set while etcd does not accept the user
}

// accepted forgets that etcd has refused the user.
func (t *trouble) accepted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusal = nil
}

// invoke is gRPC's invoker, which tells why there is no connection.
func (t *trouble) invoke(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	_, why, found := strings.Cut(status.Convert(err).Message(), "connection error: desc = ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last = nil; found {
		why = strings.ReplaceAll(why, `"`, "")
		if strings.Contains(why, "server preface") {
			why += "; " + t.hungUp
		}
		t.last = errors.New(why)
	}
	return err
}

// explain returns what an error of etcd's client means here. It replaces a mere time-out by
// the reason why there is no connection. It does not wrap the time-out, because a caller
// that finds one in an error drops the rest.
func (t *trouble) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed):
		t.refusal = fmt.Errorf("etcd does not accept the user %q with this password: see %s and %s", t.user, envUser,
			envPassword)
		return t.refusal
	case errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrPermissionDenied) && t.user == "":
		return fmt.Errorf("etcd asks for a user: set %s and %s", envUser, envPassword)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("etcd does not let the user %q read and write here: %w", t.user, err)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w", agree.ErrRefused, err)
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		return err
	case t.refusal != nil: // the time-out only ended the next attempt
		return t.refusal
	case t.last != nil:
		return fmt.Errorf("it does not answer (%w)", t.last)
	}
	return err
}
