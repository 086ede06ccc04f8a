//go:build !etcd

package tuner

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// HasEtcd reports whether this build can meet in an etcd.
const HasEtcd = false

// openEtcd says which library can do this. An etcd client would make each job's
// library nearly three times as large and its start more than twice as long.
func openEtcd(url string, _ func(string) string) (s agree.Store, end func(), err error) {
	return nil, nil,
		fmt.Errorf("%s=%s: this library is built without etcd; load libnccl-tuner-go-etcd.so instead, which is the "+
			"same with it (in packages, else make etcd)", EnvRendezvous, wording.HideSecrets(url))
}

// LookIntoEtcd says which tunefit can do this: an etcd client is a third of it.
func LookIntoEtcd(url string, _ func(string) string) (VisitEtcd, error) {
	return nil,
		fmt.Errorf("%s: this tunefit is built without etcd; run tunefit-etcd, which is the same with it (in packages, "+
			"else make etcd)", wording.HideSecrets(url))
}
