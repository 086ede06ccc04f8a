package tuner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// slowStore needs a while for each operation.
type slowStore struct {
	agree.Store
	each time.Duration
}

func (s slowStore) wait(ctx context.Context) error {
	select {
	case <-time.After(s.each):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slowStore) PutOnce(ctx context.Context, key string, value []byte) ([]byte, error) {
	return s.Store.PutOnce(ctx, key, value)
}

func (s slowStore) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := s.wait(ctx); err != nil {
		return nil, false, err
	}
	return s.Store.Get(ctx, key)
}

// A place that is missing when a process creates its first communicator, and slow when it creates
// the next, does not let the process start on another version than the rank that was there first.
func TestSlowStoreIsAwaited(t *testing.T) {
	for _, each := range []time.Duration{150 * time.Millisecond, 3 * time.Second, 2 * agree.JoinLimit} {
		t.Run(each.String(), func(t *testing.T) {
			dir := t.TempDir()
			meet, file := filepath.Join(dir, "absent", "meet"), filepath.Join(dir, "p.csv")
			write(t, file, rows(1))
			synctest.Test(t, func(t *testing.T) {
				p := New(env(EnvConfigFile, file, EnvRendezvous, meet))
				if c, err := p.Open(oneOfEight(), telemetry.Log{}); err == nil {
					defer c.Close()
				}
				os.MkdirAll(meet, 0o700)
				info := oneOfEight()
				r, err := p.meet(settings{rendezvous: meet}, info.Nodes, telemetry.Log{})
				if err != nil {
					t.Fatal(err)
				}
				defer r.release()
				own, err := p.loader.Load(policyfile.Settings{Policy: policyfile.Named{Variable: EnvConfigFile,
					Path: file}}, telemetry.Log{})
				if err != nil {
					t.Fatal(err)
				}
				first, err := agree.Join(t.Context(), agree.Config{Comm: agree.CommKey(info.ID, info.Ranks),
					Ranks: info.Ranks, Identity: "first",
					Store: r.store, Poller: r.poller, Clock: p.clock, Timing: r.timing, Log: telemetry.Log{},
					Counter: &agree.Counter{}, Own: own.ID(), OwnContent: own.Content(),
					Stage: func([]byte, string, agree.Ranks) (agree.Snapshot, error) { return own, nil }})
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close()
				write(t, file, rows(2))
				r.store = slowStore{r.store, each}
				second, err := p.Open(info, telemetry.Log{})
				switch {
				case errors.Is(err, agree.ErrUnreachable) && each > agree.JoinLimit:
				case err != nil:
					t.Error(err)
				default:
					defer second.Close()
					if got, want := second.inForce().EffectDigest(), own.EffectDigest(); got != want {
						t.Errorf("one rank starts on version %s, the other on %s", want, got)
					}
				}
			})
		})
	}
}
