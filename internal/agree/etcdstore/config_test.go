package etcdstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		url       string
		env       []string
		endpoints []string
		prefix    string
		user      string
	}{
		{url: "etcd://a:2379", endpoints: []string{"http://a:2379"}, prefix: DefaultPrefix},
		{url: "etcd://a:1,b:2,[::1]:3/jobs/42/", endpoints: []string{"http://a:1", "http://b:2", "http://[::1]:3"},
			prefix: "/jobs/42"},
		{url: "etcds://a:1/x", endpoints: []string{"https://a:1"}, prefix: "/x"},
		{url: "etcd://a:1", env: []string{"ETCDCTL_USER=me:se:cret"}, endpoints: []string{"http://a:1"},
			prefix: DefaultPrefix, user: "me se:cret"},
		{url: "etcd://a:1", env: []string{"ETCDCTL_USER=me", "ETCDCTL_PASSWORD=secret"},
			endpoints: []string{"http://a:1"}, prefix: DefaultPrefix, user: "me secret"},
	} {
		got, err := Parse(c.url, environment(c.env...))
		if err != nil || !slices.Equal(got.Endpoints, c.endpoints) || got.Prefix != c.prefix ||
			strings.TrimSpace(got.User+" "+got.Password) != c.user {
			t.Errorf("%s %q: %+v, %v", c.url, c.env, got, err)
		}
		if secure := strings.HasPrefix(c.url, SchemeTLS); (got.TLS != nil) != secure {
			t.Errorf("%s: TLS %v", c.url, got.TLS)
		}
	}
}

func TestParseErrors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	os.WriteFile(empty, nil, 0o600)
	for _, c := range []struct {
		url  string
		env  []string
		want string
	}{
		{"http://a:1", nil, "not the URL of an etcd"},
		{"etcd:///x", nil, `"" is not host:port`},
		{"etcd://a/x", nil, `"a" is not host:port (etcd's usual port is 2379)`},
		{"etcd://a:1,,b:1", nil, `"" is not host:port`},
		{"etcd://me:SECRET@a:1/x", nil, "etcd://***@a:1/x: a user does not belong into the address: set ETCDCTL_USER"},
		{"etcd://me:SEC/RET@a:1/x", nil, "etcd://***@a:1/x: a user"},
		{"etcd://me:SEC?RET@a:1/x", nil, "etcd://***@a:1/x: a user"},
		{"http://me:SECRET@a:1", nil, "http://***@a:1: not the URL of an etcd"},
		{"etcd://a:1/x?y=z", nil, "? and #"},
		{"etcd://a:1", []string{"ETCDCTL_CACERT=/x"}, "without TLS: write etcds://"},
		{"etcds://a:1", []string{"ETCDCTL_CACERT=/does/not/exist"}, "ETCDCTL_CACERT: open /does/not/exist"},
		{"etcds://a:1", []string{"ETCDCTL_CACERT=" + empty}, "holds no certificate"},
		{"etcds://a:1", []string{"ETCDCTL_CERT=/x"}, "only one is set"},
		{"etcds://a:1", []string{"ETCDCTL_CERT=/x", "ETCDCTL_KEY=/y"}, "ETCDCTL_CERT, ETCDCTL_KEY: open /x"},
		{"etcd://a:1", []string{"ETCDCTL_USER=me"}, "set ETCDCTL_PASSWORD"},
		{"etcd://a:1", []string{"ETCDCTL_PASSWORD=secret"}, "without ETCDCTL_USER"},
		{"etcd://a:1", []string{"ETCDCTL_USER=me:a", "ETCDCTL_PASSWORD=b"}, "different passwords"},
	} {
		_, err := Parse(c.url, environment(c.env...))
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), wording.HideSecrets(c.url)+": ") || strings.Contains(err.Error(), "SEC") ||
			strings.Contains(err.Error(), "RET@") {
			t.Errorf("%s %q: %v, want %q", c.url, c.env, err, c.want)
		}
	}
}

// certificate makes a key and a certificate for this machine, which is its own
// authority.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		BasicConstraintsValid: true,
		NotAfter:              time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)}}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", public), write("key.pem", "EC PRIVATE KEY", secret)
}

// TestTLSAndPassword uses an etcd that asks for a client certificate and a user.
func TestTLSAndPassword(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	t.Parallel()
	cert, key := certificate(t)
	server := storetest.StartEtcd(t, "https", "--cert-file="+cert, "--key-file="+key, "--client-cert-auth",
		"--trusted-ca-file="+cert)
	url := SchemeTLS + server.Address + "/test"
	certs := []string{envCACert + "=" + cert, envCert + "=" + cert, envKey + "=" + key}
	open := process(t, url, certs...)
	storetest.Put(t, open, "c/before/init", "A")
	etcd, err := open.conn.client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 2*time.Minute)
	for _, err := range []error{
		second(etcd.UserAdd(ctx, "root", "secret")), second(etcd.UserGrantRole(ctx, "root", "root")),
		second(etcd.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	storetest.Put(t, process(t, url, append(certs, envUser+"=root:secret")...), "c/x/init", "A")
	for what, c := range map[string]struct {
		env []string
		url string
		say string
	}{
		"no user": {certs, url, "etcd asks for a user: set ETCDCTL_USER and ETCDCTL_PASSWORD"},
		"wrong password": {append(certs, envUser+"=root:wrong"), url,
			`etcd does not accept the user "root" with this password`},
		"no certificate": {[]string{envCACert + "=" + cert, envUser + "=root:secret"}, url,
			"does it want a client certificate, ETCDCTL_CERT?"},
		"unknown authority": {[]string{envCert + "=" + cert, envKey + "=" + key, envUser + "=root:secret"}, url,
			"certificate signed by unknown authority"},
		"no TLS": {[]string{envUser + "=root:secret"}, Scheme + server.Address,
			"does it want TLS, that is, etcds://?"},
		"nobody there": {certs, SchemeTLS + storetest.FreeAddress(t), "connection refused"},
	} {
		s := process(t, c.url, c.env...)
		_, err := s.PutOnce(within(t, 2*time.Second), "c/x/init", nil)
		// On a busy machine the time may be over before etcd has said why.
		for patience := within(t, 2*time.Minute); err != nil && !strings.Contains(err.Error(), c.say) &&
			patience.Err() == nil; {
			_, err = s.PutOnce(within(t, 2*time.Second), "c/x/init", nil)
		}
		t.Logf("%s: %v", what, err)
		if what == "wrong password" { // it is said, too, when another attempt was under way
			s.conn.client(within(t, 2*time.Minute))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = s.PutOnce(ctx, "c/x/init", nil)
		}
		if err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want %q", what, err, c.say)
		}
	}
}

func second[T any](_ T, err error) error { return err }
