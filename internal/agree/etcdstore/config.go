package etcdstore

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"

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
