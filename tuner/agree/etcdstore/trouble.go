package etcdstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// trouble remembers why the last attempt to connect failed. An operation waits for
// a connection until its context ends, and would only say so.
type trouble struct {
	mu   sync.Mutex
	last error
}

func (t *trouble) note(address string, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = nil
	if err != nil {
		t.last = fmt.Errorf("etcd at %s: %w", address, err)
	}
	return err
}

// explain adds the reason to an error that tells of nothing but time.
func (t *trouble) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil || t.last == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, t.last)
}

func (t *trouble) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	return conn, t.note(address, err)
}

// credentials are those of TLS, or of a plain connection if config is nil.
func (t *trouble) credentials(config *tls.Config) credentials.TransportCredentials {
	if config == nil {
		return noting{insecure.NewCredentials(), t, "does it want TLS, that is, " + SchemeTLS + "?"}
	}
	return noting{credentials.NewTLS(config), t, "does it want a client certificate, " + envCert + "?"}
}

// noting are credentials whose failures are remembered.
type noting struct {
	credentials.TransportCredentials
	trouble *trouble
	why     string // it may have hung up at once
}

func (n noting) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := n.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if n.trouble.note(raw.RemoteAddr().String(), err) != nil {
		return nil, nil, err
	}
	return &silent{Conn: conn, noting: n}, info, nil
}

func (n noting) Clone() credentials.TransportCredentials {
	return noting{n.TransportCredentials.Clone(), n.trouble, n.why}
}

// silent is a connection whose other end has not said anything yet. A server that
// does not like the client may hang up without a word.
type silent struct {
	net.Conn
	noting noting
	spoke  bool // only the reader uses it
}

func (s *silent) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err != nil && !s.spoke && n == 0 {
		s.noting.trouble.note(s.RemoteAddr().String(), fmt.Errorf("it hung up (%s): %w", s.noting.why, err))
	}
	s.spoke = s.spoke || n > 0
	return n, err
}
