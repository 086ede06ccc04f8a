package etcdstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
)

// server is an etcd and the URL of a place in it.
type server struct {
	*storetest.Etcd
	url string
}

func startEtcd(t *testing.T) server {
	t.Helper()
	etcd := storetest.StartEtcd(t, "http")
	return server{etcd, Scheme + etcd.Address + "/test"}
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
