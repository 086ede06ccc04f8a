//go:build etcd

package tuner

import (
	"context"
	"fmt"
	"strings"

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
func LookIntoEtcd(url string, getenv func(string) string) (VisitEtcd, error) {
	c, err := etcdstore.Parse(url, getenv)
	if err != nil {
		return nil, err
	}
	view, above := etcdstore.Look(c), strings.TrimRight(url, "/")
	if !strings.HasSuffix(above, c.Prefix) { // the URL has no path, so a job's needs the default one
		above += c.Prefix
	}
	return func(ctx context.Context) (places []RendezvousView, unseen []error, err error) {
		stores, unseen, err := view.Below(ctx)
		if len(stores) == 0 {
			stores = []string{""} // nobody has used it yet
		}
		for _, store := range stores {
			name := url
			if store != "" {
				name = above + "/" + store
			}
			places = append(places, RendezvousView{Name: name, Records: view.At(store)})
		}
		return places, unseen, err
	}, nil
}
