package tuner

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
)

// takeOver is how long a machine may be without the process that acts for all.
const takeOver = 5 * time.Second

// aggregateRanks puts a store of the machine in front of the one that all machines
// share. One process mirrors the shared one there and passes the ranks'
// acknowledgements on together; should it end, another one takes over.
func (r *rendezvous) aggregateRanks(o *opening) error {
	local, err := dirstore.Private(dirstore.Shm, fmt.Sprintf("mirror-%x", sha256.Sum256([]byte(r.name)))[:23], newIdentity())
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", dirstore.Shm, err)
	}
	o.timing.Settle = max(o.timing.Settle, agree.SettleByMachine)
	node := agree.NewNode(o.store, local)
	ctx, stop := context.WithCancel(context.Background())
	var leading sync.WaitGroup
	leading.Go(func() {
		for ctx.Err() == nil {
			if end, ok := local.Lead(); ok {
				node.Lead(ctx, r.plugin.clock, o.timing)
				end()
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(takeOver):
			}
		}
	})
	closeShared := o.close
	o.store = node
	o.close = func() {
		stop()
		leading.Wait()
		local.Close()
		closeShared()
	}
	return nil
}
