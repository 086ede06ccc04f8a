//go:build !etcd

package tuner

import (
	"strings"
	"testing"
)

// The library for all says which one to take.
func TestOpenEtcd(t *testing.T) {
	_, _, err := openEtcd("etcd://127.0.0.1:1/job", func(string) string { return "" })
	if err == nil || !strings.Contains(err.Error(), "libnccl-tuner-go-etcd.so") {
		t.Errorf("%v", err)
	}
}
