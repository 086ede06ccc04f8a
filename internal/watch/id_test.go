package watch

import (
	"testing"
	"time"
)

// A file that changed just now may change again without a trace.
func TestShowsNextChange(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name  string
		mtime time.Time
		want  bool
	}{
		{"an hour old", now.Add(-time.Hour), true},
		{"of the future, by another machine's clock", now.Add(time.Hour), false},
		{"of this second, where times are whole seconds", now.Truncate(time.Second), false},
	} {
		if got := (ID{mtime: c.mtime.UnixNano()}).ShowsNextChange(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
