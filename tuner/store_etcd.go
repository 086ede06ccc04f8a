//go:build etcd

package tuner

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/etcdstore"
)

// HasEtcd reports whether this build can meet in an etcd.
const HasEtcd = true

// openEtcd opens the etcd that a URL of NCCL_TUNER_RENDEZVOUS names, whether or not
// it can be reached now.
func openEtcd(url string, getenv func(string) string) (s agree.Store, end func(), err error) {
	c, err := etcdstore.Parse(url, getenv)
	if err != nil {
		return nil, nil, fmt.Errorf("%s=%w", EnvRendezvous, err)
	}
	store := etcdstore.Open(c)
	return store, store.Close, nil
}

// LookIntoEtcd opens the same for one who takes no part.
func LookIntoEtcd(url string, getenv func(string) string) (agree.Records, error) {
	c, err := etcdstore.Parse(url, getenv)
	if err != nil {
		return nil, err
	}
	return etcdstore.Look(c), nil
}
