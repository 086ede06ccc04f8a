package tuner

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A file system that hangs holds up nobody for longer than the limit, and after that
// nobody at all until it has answered.
func TestAskWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := hungCalls{names: map[string]bool{}}
		server := make(chan struct{})
		var asked atomic.Int32
		read := func() (string, error) {
			asked.Add(1)
			<-server
			return "text", nil
		}
		began := time.Now()
		for range 5 {
			text, err := withTimeout(&q, "file", time.Minute, read)
			if text != "" || !errors.As(err, new(noAnswer)) {
				t.Errorf("%q, %v without an answer", text, err)
			}
		}
		if waited := time.Since(began); asked.Load() != 1 || waited != time.Minute {
			t.Errorf("asked %d times and waited for %v", asked.Load(), waited)
		}
		if text, err := withTimeout(&q, "another", time.Minute, func() (string, error) { return "x", nil }); text != "x" || err != nil {
			t.Errorf("another file: %q, %v", text, err)
		}
		close(server)
		synctest.Wait()
		if text, err := withTimeout(&q, "file", time.Minute, read); text != "text" || err != nil {
			t.Errorf("after the server is back: %q, %v", text, err)
		}
	})
}

// What panics does so where it is contained.
func TestAskPanics(t *testing.T) {
	q := hungCalls{names: map[string]bool{}}
	defer func() {
		if p := recover(); p != "defect" {
			t.Errorf("recovered %v", p)
		}
	}()
	withTimeout(&q, "file", time.Minute, func() (int, error) { panic("defect") })
}

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
			hanging.Go(func() { withTimeout(&p.hung, name, time.Second, func() (int, error) { <-release; return 0, nil }) })
		}
		hanging.Wait()
		defer synctest.Wait()
		defer close(release)
		_, err := p.Open(eightRanks, Log{})
		if err == nil || !errors.As(err, new(noAnswer)) {
			t.Errorf("policy: %v", err)
		}
		write(t, other, "collective,algorithm,protocol,when\nallreduce,ring,simple,topo.sm >= 90\n")
		p.getenv = env(EnvConfigFile, other, EnvReload, "new")
		_, err = p.Open(eightRanks, Log{})
		if err == nil || !errors.As(err, new(noAnswer)) {
			t.Errorf("topology: %v", err)
		}
	})
}
