package dirstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
)

// job is eight ranks that agree through a real directory, on a clock that takes
// no time.
type job struct {
	dir    string
	during func(at time.Duration) // called at each millisecond of rank 0's calls
}

type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Infof(format string, args ...any) { l.add(format, args) }
func (l *logLines) Warnf(format string, args ...any) { l.add("WARN "+format, args) }
func (l *logLines) add(format string, args []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// run makes calls on all ranks and returns by what version each was decided, and
// when a call was first decided by "B".
func (j job) run(t *testing.T, ranks, calls int, save time.Duration) (decided [][]string, switched time.Duration,
	log *logLines) {
	decided = make([][]string, ranks)
	log = &logLines{}
	begin := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	for r := range ranks {
		all.Go(func() {
			s, err := Private(j.dir, "comm", fmt.Sprint(r))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			clock := agree.RealTime()
			var counter agree.Counter
			ctx, cancel := context.WithTimeout(t.Context(), agree.JoinLimit)
			defer cancel()
			m, err := agree.Join(ctx, agree.Config{
				Comm: agree.CommKey(7, ranks), Ranks: ranks, Rank: r, Identity: fmt.Sprint(r), Store: s,
				Poller: agree.NewPoller(s, clock, agree.Local), Clock: clock, Timing: agree.Local, Log: log,
				Counter: &counter,
				Own:     agree.VersionID{Content: agree.DigestOf([]byte("A")), EffectDigest: "A"}, OwnContent: []byte("A"),
				Stage: func(content []byte, _ string, _ agree.Ranks) (agree.Snapshot, error) {
					return storetest.Text(content), nil
				},
			})
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			now := m.Snapshot().(storetest.Text)
			for n := range uint64(calls) {
				time.Sleep(time.Millisecond) // real: files are shared with what is on the disk
				if at := time.Since(begin).Truncate(time.Millisecond); at == save {
					m.Offer(agree.VersionID{Content: agree.DigestOf([]byte("B")), EffectDigest: "B"}, []byte("B"))
				}
				if r == 0 && j.during != nil {
					j.during(time.Since(begin).Truncate(time.Millisecond))
				}
				call := agree.HashCall(4, n, 1)
				if n >= counter.Trigger.Load() {
					next, err := m.AtTrigger(n, call)
					if err != nil {
						t.Errorf("rank %d, call %d: %v", r, n, err)
						return
					}
					if next != nil {
						now = next.(storetest.Text)
						mu.Lock()
						switched = max(switched, time.Since(begin))
						mu.Unlock()
					}
				}
				decided[r] = append(decided[r], string(now))
				counter.Add(call)
				counter.Seq.Store(n + 1)
			}
		})
	}
	all.Wait()
	return decided, switched, log
}

func compare(t *testing.T, decided [][]string, last string) {
	t.Helper()
	for r, versions := range decided {
		for n := range versions {
			if versions[n] != decided[0][n] {
				t.Fatalf("call %d: rank %d decides by %q, rank 0 by %q", n, r, versions[n], decided[0][n])
			}
		}
		if len(versions) == 0 || versions[len(versions)-1] != last {
			t.Errorf("rank %d made %d calls and does not end on %q", r, len(versions), last)
		}
	}
}

func TestEightRanksSwitchWithinTwoSeconds(t *testing.T) {
	parent := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const save = time.Second
		decided, switched, _ := job{dir: parent}.run(t, 8, 4000, save)
		compare(t, decided, "B")
		if after := switched - save; after <= 0 || after > 2*time.Second {
			t.Errorf("the last rank switched %v after the save", after)
		} else {
			t.Logf("all ranks switched %v after the save", after)
		}
	})
	if entries, _ := os.ReadDir(parent); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestStoreAwayDuringChange moves the directory away in each phase of a change
// and brings it back.
func TestStoreAwayDuringChange(t *testing.T) {
	for _, away := range []time.Duration{900, 1050, 1300, 1500, 1700, 2000} {
		parent := t.TempDir()
		hidden := filepath.Join(t.TempDir(), "hidden")
		synctest.Test(t, func(t *testing.T) {
			var dir string
			bring := func() {
				if err := os.Rename(hidden, dir); err != nil {
					t.Error(err)
				}
			}
			j := job{dir: parent, during: func(at time.Duration) {
				if at == away*time.Millisecond {
					dirs, _ := PrivateDirs(parent, os.Getuid())
					dir = dirs[0]
					if err := os.Rename(dir, hidden); err != nil {
						t.Error(err)
					}
					time.AfterFunc(30*time.Second, bring)
				}
			}}
			decided, _, _ := j.run(t, 4, 60000, time.Second)
			compare(t, decided, "B")
		})
	}
}
