package tuner

import (
	"context"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// whileRunning returns a context that ends when this process has run for the limit. Time for which the
// process is stopped, by a debugger for example, does not count: each wake-up counts for at most a second.
func whileRunning(clock agree.Clock, limit time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(context.Background())
	var wait func(left time.Duration)
	wait = func(left time.Duration) {
		clock.AfterFunc(min(left, time.Second), func() {
			switch left -= time.Second; {
			case left <= 0:
				cancel()
			case ctx.Err() == nil:
				wait(left)
			}
		})
	}
	wait(limit)
	return ctx, cancel
}
