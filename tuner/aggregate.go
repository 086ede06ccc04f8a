package tuner

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
)

// takeOver is how long a node may be without an aggregator.
const takeOver = 5 * time.Second

// aggregateRanks puts a store of the node's own in front of the shared one. One process of
// the node is the aggregator; if it ends, another one takes over.
func (r *rendezvous) aggregateRanks() error {
	local, err := dirstore.Private(dirstore.Shm, fmt.Sprintf("mirror-%x", sha256.Sum256([]byte(r.name)))[:23],
		identity.New())
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", dirstore.Shm, err)
	}
	r.timing.Settle = max(r.timing.Settle, agree.AggregatedSettle)
	node := agree.NewNodeStore(r.store, local)
	ctx, stop := context.WithCancel(context.Background())
	var aggregating sync.WaitGroup
	aggregating.Go(func() {
		for ctx.Err() == nil {
			if end, ok := local.LockAggregator(); ok {
				node.Aggregate(ctx, r.plugin.clock, r.timing)
				end()
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(takeOver):
			}
		}
	})
	closeShared := r.close
	r.store = node
	shared := r.inPlace
	r.inPlace = func(ctx context.Context) error {
		if err := local.InPlace(ctx); err != nil || shared == nil {
			return err
		}
		return shared(ctx)
	}
	r.close = func() {
		stop()
		aggregating.Wait()
		local.Close()
		closeShared()
	}
	return nil
}
