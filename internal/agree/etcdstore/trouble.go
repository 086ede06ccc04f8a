package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// trouble remembers why the last attempt to connect failed. An operation waits for a connection until its
// context ends, and its own error says only that.
type trouble struct {
	user    string // whom this process connects as
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

func (t *trouble) note(address string, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = nil
	if err != nil {
		t.last = fmt.Errorf("etcd at %s: %w", address, err)
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

// noting are credentials that note why a handshake failed.
type noting struct {
	credentials.TransportCredentials
	trouble *trouble
	why     string // the likely reason if etcd hangs up at once
}

func (n noting) ClientHandshake(ctx context.Context, authority string,
	raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := n.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if n.trouble.note(raw.RemoteAddr().String(), err) != nil {
		return nil, nil, err
	}
	return &silent{Conn: conn, noting: n}, info, nil
}

func (n noting) Clone() credentials.TransportCredentials {
	return noting{n.TransportCredentials.Clone(), n.trouble, n.why}
}

// silent is a connection on which the server has sent nothing yet. A server that refuses a client may hang up
// without a word.
type silent struct {
	net.Conn
	noting noting
	spoke  bool // the server has sent something; only the reader uses it
}

func (s *silent) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err != nil && !s.spoke && n == 0 {
		_ = s.noting.trouble.note(s.RemoteAddr().String(), fmt.Errorf("it hung up (%s): %w", s.noting.why, err))
	}
	s.spoke = s.spoke || n > 0
	return n, err
}
