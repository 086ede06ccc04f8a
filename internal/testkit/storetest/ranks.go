package storetest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// out writes lines of several goroutines whole.
type out struct{ mu sync.Mutex }

func (o *out) line(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}
func (o *out) Infof(format string, args ...any) { o.line("log "+format, args...) }
func (o *out) Warnf(format string, args ...any) { o.line("log WARN "+format, args...) }

// Text is a version that means what it says.
type Text string

// EffectDigest implements agree.Snapshot.
func (s Text) EffectDigest() string { return string(s) }

// RankPart is a process's part in Agreement: one rank that makes a call each
// millisecond from a given moment until it is told to stop, and prints at which ones it switched.
func RankPart(s agree.Store, timing agree.Timing, rank, ranks int) error {
	var say out
	var counter agree.Counter
	clock := agree.RealTime()
	ctx, cancel := context.WithTimeout(context.Background(), agree.JoinLimit)
	defer cancel()
	m, err := agree.Join(ctx, agree.Config{
		Comm: agree.CommKey(7, ranks), Ranks: ranks, Rank: rank, Identity: fmt.Sprintf("%d-%d", rank, os.Getpid()),
		Store:  s,
		Poller: agree.NewPoller(s, clock, timing), Clock: clock, Timing: timing, Log: &say, Counter: &counter,
		Own: agree.VersionID{Content: agree.DigestOf([]byte("A")), EffectDigest: "A"}, OwnContent: []byte("A"),
		Stage: func(content []byte, _ string, _ agree.Ranks) (agree.Snapshot, error) {
			return Text(content), nil
		},
	})
	if err != nil {
		return err
	}
	defer m.Close()
	begin, stop := make(chan time.Time, 1), make(chan struct{})
	go func() {
		defer close(stop)
		for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
			var nanos int64
			if version, ok := strings.CutPrefix(scan.Text(), "save "); ok {
				m.Offer(agree.VersionID{Content: agree.DigestOf([]byte(version)), EffectDigest: version},
					[]byte(version))
			} else if _, err := fmt.Sscanf(scan.Text(), "go %d", &nanos); err == nil {
				begin <- time.Unix(0, nanos)
			} else {
				return
			}
		}
	}()
	say.line("ready")
	var began time.Time
	select {
	case began = <-begin:
	case <-stop:
		return nil
	}
	for n := uint64(0); ; n++ {
		// The collective, which ends at the same moment on all ranks. A rank that got no
		// processor for a while catches up: nothing else keeps it from staying behind.
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Millisecond))) // the call
		select {
		case <-stop:
			say.line("calls %d", n)
			return nil
		default:
		}
		call := agree.HashCall(4, n, 1)
		if n >= counter.Trigger.Load() {
			next, err := m.AtTrigger(n, call)
			if err != nil {
				return err
			}
			if next != nil {
				say.line("switch %s at call %d", next, n)
			}
		}
		counter.Add(call)
		counter.Seq.Store(n + 1)
	}
}

// Agreement changes the policy of running ranks. In the middle of the change, when
// it was proposed, it calls during; where that is nil, a second change follows. All
// ranks must switch at the same calls.
func Agreement(t *testing.T, ranks []*Process, during func()) {
	begin := fmt.Sprintf("go %d", time.Now().UnixNano())
	for _, p := range ranks {
		p.Say(begin)
	}
	saved := time.Now()
	ranks[0].Say("save B")
	ranks[0].Await(t, "log change 1: proposed")
	if during != nil {
		during()
	}
	same := func(version string) {
		t.Helper()
		first := ""
		for i, p := range ranks {
			line := p.Await(t, "switch ")
			if first == "" {
				first = line
			}
			if line != first || !strings.HasPrefix(line, "switch "+version+" ") {
				t.Errorf("rank %d: %q, rank 0: %q, want version %s", i, line, first, version)
			}
		}
		t.Logf("%s, on all ranks %v after the save", first, time.Since(saved).Round(time.Millisecond))
	}
	same("B")
	if during == nil {
		saved = time.Now()
		ranks[len(ranks)-1].Say("save C")
		same("C")
	}
	for _, p := range ranks {
		p.Say("stop")
	}
	for i, p := range ranks {
		for _, line := range p.Rest(t) {
			if strings.HasPrefix(line, "switch ") {
				t.Errorf("rank %d: %s", i, line)
			}
		}
	}
}
