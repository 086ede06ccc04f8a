package safefile

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The first call that hangs waits for the limit. Later calls of its name fail at once, until the first has returned.
func TestWithinHangs(t *testing.T) {
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

// A panic reaches the caller, whose recover contains it: on f's own goroutine it would end the process.
func TestWithinPanics(t *testing.T) {
	q := Timeouts{}
	defer func() {
		if p := recover(); p != "defect" {
			t.Errorf("recovered %v", p)
		}
	}()
	Within(&q, "file", time.Minute, func() (int, error) { panic("defect") })
}
