package etcdstore

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// server is an etcd of the test's own.
type server struct {
	t      *testing.T
	args   []string
	client string // host:port
	secure bool
	cmd    *exec.Cmd
	ended  chan struct{}
	log    bytes.Buffer
}

// startEtcd starts an etcd with an empty directory. With more arguments for TLS,
// secure says that clients need it.
func startEtcd(t *testing.T, secure bool, more ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("NOT TESTED: no etcd in PATH; on Debian and Ubuntu: apt-get install etcd-server")
	}
	s := &server{t: t, client: freeAddress(t), secure: secure}
	client, peer := "http://"+s.client, "http://"+freeAddress(t)
	if secure {
		client = "https://" + s.client
	}
	s.args = append([]string{"--name=test", "--data-dir=" + t.TempDir(), "--logger=zap", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=test=" + peer}, more...)
	s.start()
	t.Cleanup(s.kill)
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command("etcd", s.args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { cmd.Wait(); close(ended) }(s.cmd, s.ended)
	limit := time.Now().Add(30 * time.Second)
	for {
		conn, err := net.DialTimeout("tcp", s.client, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-s.ended:
			s.t.Fatalf("etcd ends: %s", s.log.String())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(limit) {
			s.kill()
			s.t.Fatalf("etcd does not start: %s", s.log.String())
		}
	}
}

// kill ends etcd as a crash does.
func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

func (s *server) url() string {
	if s.secure {
		return SchemeTLS + s.client + "/test"
	}
	return Scheme + s.client + "/test"
}

// process opens the store as a process does with a URL and its environment.
func process(t *testing.T, url string, env ...string) *Store {
	t.Helper()
	c, err := Parse(url, environment(env...))
	if err != nil {
		t.Fatal(err)
	}
	s := Open(c)
	t.Cleanup(s.Close)
	return s
}

func environment(env ...string) func(string) string {
	return func(name string) string {
		for _, e := range env {
			if value, ok := strings.CutPrefix(e, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// within bounds what a test waits for.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
