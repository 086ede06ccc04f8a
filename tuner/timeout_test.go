package tuner

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// A rank that gets no answer about its file must not start on another policy than those
// that got one. A file that hangs leaves other files usable.
func TestOpenWithAFileThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		good, other := dir+"/good.csv", dir+"/other.csv"
		p := New(env(EnvConfigFile, good, EnvReload, "new"))
		write(t, good, "allreduce,0,inf,ring,simple,-1,-1,-1\n")
		release := make(chan struct{})
		var hanging sync.WaitGroup
		for _, name := range []string{good, "topology"} {
			hanging.Go(func() {
				safefile.Within(&p.timeouts, name, time.Second, func() (int, error) { <-release; return 0, nil })
			})
		}
		hanging.Wait()
		defer synctest.Wait()
		defer close(release)
		_, err := p.Open(eightRanks, telemetry.Log{})
		if err == nil || !errors.As(err, new(safefile.NoAnswer)) {
			t.Errorf("policy: %v", err)
		}
		write(t, other, "collective,algorithm,protocol,when\nallreduce,ring,simple,topo.sm >= 90\n")
		p.getenv = env(EnvConfigFile, other, EnvReload, "new")
		_, err = p.Open(eightRanks, telemetry.Log{})
		if err == nil || !errors.As(err, new(safefile.NoAnswer)) {
			t.Errorf("topology: %v", err)
		}
	})
}

// handClock fires its timer by hand.
type handClock struct {
	agree.Clock
	after time.Duration
	fire  func()
}

func (c *handClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.after, c.fire = d, f
	return nil
}

// A process that is stopped wakes up late, but no more often: so it still has the rest of its time.
func TestWhileRunning(t *testing.T) {
	clock := &handClock{}
	ctx, cancel := whileRunning(clock, 2500*time.Millisecond)
	defer cancel()
	for _, want := range []time.Duration{time.Second, time.Second, 500 * time.Millisecond} {
		if ctx.Err() != nil || clock.after != want {
			t.Errorf("it waits %v and not %v: %v", clock.after, want, ctx.Err())
		}
		clock.fire()
	}
	if ctx.Err() == nil {
		t.Error("it does not end")
	}
	ctx, cancel = whileRunning(clock, time.Hour)
	cancel()
	last := clock.fire
	clock.fire = nil
	if last(); ctx.Err() == nil || clock.fire != nil {
		t.Error("it goes on")
	}
}
