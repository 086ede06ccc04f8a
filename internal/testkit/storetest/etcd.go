package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// An Etcd is a server of the test's own, which may crash and come back with what it
// knew.
type Etcd struct {
	Address string // host:port for clients

	t     testing.TB
	args  []string
	cmd   *exec.Cmd
	ended chan struct{}
	log   bytes.Buffer
}

// StartEtcd starts an etcd with an empty directory. With more arguments for TLS,
// scheme is https.
func StartEtcd(t testing.TB, scheme string, more ...string) *Etcd {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("NOT TESTED: no etcd in PATH; on Debian and Ubuntu: apt-get install etcd-server")
	}
	s := &Etcd{t: t, Address: FreeAddress(t)}
	client, peer := scheme+"://"+s.Address, "http://"+FreeAddress(t)
	s.args = append([]string{"--name=test", "--data-dir=" + t.TempDir(), "--logger=zap", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=test=" + peer},
		more...)
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// FreeAddress is one that nobody listens at. Its port is below those that Linux gives to
// connections and to listeners that ask for none, or another test could get it at once.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
}

// Start brings back an etcd that was killed.
func (s *Etcd) Start() {
	s.t.Helper()
	s.cmd = exec.Command("etcd", s.args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { _ = cmd.Wait(); close(ended) }(s.cmd, s.ended)
	limit := time.Now().Add(deadline)
	for {
		conn, err := net.DialTimeout("tcp", s.Address, time.Second)
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
			s.Kill()
			s.t.Fatalf("etcd does not start: %s", s.log.String())
		}
	}
}

// Kill ends etcd as a crash does.
func (s *Etcd) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}
