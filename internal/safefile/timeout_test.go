package safefile

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A file system that hangs holds up nobody for longer than the limit, and after that
// nobody at all until it has answered.
func TestAskWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := Timeouts{}
		server := make(chan struct{})
		var asked atomic.Int32
		read := func() (string, error) {
			asked.Add(1)
			<-server
			return "text", nil
		}
		began := time.Now()
		for range 5 {
			text, err := Within(&q, "file", time.Minute, read)
			if text != "" || !errors.As(err, new(NoAnswer)) {
				t.Errorf("%q, %v without an answer", text, err)
			}
		}
		if waited := time.Since(began); asked.Load() != 1 || waited != time.Minute {
			t.Errorf("asked %d times and waited for %v", asked.Load(), waited)
		}
		if text, err := Within(&q, "another", time.Minute, func() (string, error) { return "x", nil }); text != "x" ||
			err != nil {
			t.Errorf("another file: %q, %v", text, err)
		}
		close(server)
		synctest.Wait()
		if text, err := Within(&q, "file", time.Minute, read); text != "text" || err != nil {
			t.Errorf("after the server is back: %q, %v", text, err)
		}
	})
}

// What panics does so where it is contained.
func TestAskPanics(t *testing.T) {
	q := Timeouts{}
	defer func() {
		if p := recover(); p != "defect" {
			t.Errorf("recovered %v", p)
		}
	}()
	Within(&q, "file", time.Minute, func() (int, error) { panic("defect") })
}
