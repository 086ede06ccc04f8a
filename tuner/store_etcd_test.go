//go:build etcd

package tuner

import (
	"strings"
	"testing"
)

func TestOpenEtcd(t *testing.T) {
	none := func(string) string { return "" }
	s, end, err := openEtcd("etcd://127.0.0.1:1/job", none)
	if s == nil || err != nil {
		t.Fatalf("%v, %v", s, err)
	}
	end()
	if _, _, err := openEtcd("etcd:///job", none); err == nil ||
		!strings.HasPrefix(err.Error(), "NCCL_TUNER_RENDEZVOUS=etcd:///job: ") {
		t.Errorf("%v", err)
	}
}
