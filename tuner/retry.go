package tuner

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// A communicator's creation waits for a store that cannot be used for as long as JoinLimit.
// Jobs create dozens, one after the other. So a process waits that long once: then it
// remembers, waits for shortWait only, and probes in the background until the store can be
// used again.

const (
	// shortWait is how long a communicator waits for a store that could not be used
	// lately. One that can be used again answers within that.
	shortWait = 100 * time.Millisecond
	// retryFirst and retryMax are the pauses between probes.
	retryFirst = 2 * time.Second
	retryMax   = time.Minute
	// rememberFor is how long a process remembers once it has no communicator left, and so
	// probes no more.
	rememberFor = 2*retryMax + agree.JoinLimit
)

// joinTimeout is how long a communicator waits for the store.
func (r *rendezvous) joinTimeout(strict bool) time.Duration {
	r.plugin.mu.Lock()
	defer r.plugin.mu.Unlock()
	if at, was := r.plugin.unusable[r.rendezvousKey]; was && time.Since(at) < rememberFor && !strict {
		return shortWait
	}
	return agree.JoinLimit
}

func (r *rendezvous) setUsable(usable bool) {
	r.plugin.mu.Lock()
	defer r.plugin.mu.Unlock()
	if usable {
		delete(r.plugin.unusable, r.rendezvousKey)
	} else {
		r.plugin.unusable[r.rendezvousKey] = time.Now()
	}
}

// cannotBeUsed records that, and starts probing whether own can be put there. The caller is
// one of the store's users.
func (r *rendezvous) cannotBeUsed(own agree.Version) {
	r.setUsable(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retrying != nil {
		return
	}
	r.log.Infof("%s cannot be used: communicators that this process creates from now on wait %v for it, until it can", r.setting(), shortWait)
	ctx, cancel := context.WithCancel(context.Background())
	r.retrying = cancel
	r.retry.Go(func() {
		defer func() {
			_ = recover() // a defect may end the retry, but not the job
			cancel()
			r.mu.Lock()
			r.retrying = nil
			r.mu.Unlock()
		}()
		for wait := retryFirst; ; wait = min(2*wait, retryMax) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			usable := r.probe(ctx, own)
			if ctx.Err() != nil {
				return
			}
			if r.setUsable(usable); usable {
				return
			}
		}
	})
}

// probe reports whether the store takes what a communicator puts at its start: the version,
// which may be large, and small records.
func (r *rendezvous) probe(ctx context.Context, own agree.Version) bool {
	ctx, cancel := context.WithTimeout(ctx, agree.JoinLimit)
	defer cancel()
	o, err := r.open(ctx)
	if err != nil {
		return false
	}
	if _, err := o.direct.PutOnce(ctx, agree.VersionDir+"/"+agree.DigestOf(own.Content), own.Content); err != nil {
		return false
	}
	small := "probe/" + strings.ToLower(rand.Text())
	if _, err := o.direct.PutOnce(ctx, small, []byte("1")); err != nil {
		return false
	}
	return o.direct.Remove(ctx, small) == nil
}
