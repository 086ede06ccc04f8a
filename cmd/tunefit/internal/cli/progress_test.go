package cli

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What the line says at some point of some work.
func TestProgressText(t *testing.T) {
	for _, test := range []struct {
		step Step
		took time.Duration
		want string
	}{
		{Step{Of: 40, Unit: "files"}, 0, "[--------------------] 0 of 40 files"},
		{Step{Done: 10, Of: 40, Unit: "files", Now: "reading a.txt"}, time.Minute,
			"[#####---------------] 10 of 40 files, about 3 min left: reading a.txt"},
		{Step{Done: 10, Of: 40, Unit: "files"}, time.Second, "[#####---------------] 10 of 40 files"}, // too early
		{Step{Done: 1, Of: 40, Unit: "files", Share: 0.5}, 10 * time.Second,
			"[##########----------] 1 of 40 files, about 10 s left"},
		{Step{Done: 2, Of: 9, About: true, Unit: "runs", Left: 90 * time.Minute}, time.Hour,
			"[####----------------] 2 of about 9 runs, about 1 h 30 min left"},
		{Step{Done: 40, Of: 40, Unit: "files"}, time.Hour, "[####################] 40 of 40 files"},
		{Step{Done: 41, Of: 40, Unit: "runs"}, time.Hour, "[####################] 41 of 40 runs"},
		{Step{Unit: "files"}, time.Hour, "[--------------------] 0 of 0 files"},
	} {
		if got := test.step.text(test.took); got != test.want {
			t.Errorf("%+v after %v: %q, want %q", test.step, test.took, got, test.want)
		}
	}
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Millisecond: "1 s", 58500 * time.Millisecond: "59 s", 59500 * time.Millisecond: "1 min",
		61 * time.Second: "2 min", 59*time.Minute + time.Second: "1 h 00 min", 125*time.Minute + 1: "2 h 06 min",
	} {
		if got := Roughly(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// The line is replaced ten times a second at most, comes again after it gave way, and holds whatever a file is called.
func TestProgressLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &Progress{w: &out, begun: time.Now()}
		p.Clear()
		if out.Len() > 0 {
			t.Errorf("it removes a line that is not there: %q", out.String())
		}
		p.Show(Step{Of: 2, Unit: "files", Now: "reading a\x1b[2J\nb"})
		p.Show(Step{Done: 1, Of: 2, Unit: "files", Now: "too soon"})
		if want := "\r\x1b[K\x1b[?7l[--------------------] 0 of 2 files: reading a\\u001b[2J\\u000ab\x1b[?7h"; out.String() !=
			want {
			t.Errorf("%q, want %q", out.String(), want)
		}
		time.Sleep(showEvery) // simulated: until a line may be shown again
		p.Show(Step{Done: 1, Of: 2, Unit: "files"})
		if !strings.HasSuffix(out.String(), "\r\x1b[K\x1b[?7l[##########----------] 1 of 2 files\x1b[?7h") {
			t.Errorf("%q", out.String())
		}
		out.Reset()
		p.Clear()
		p.Clear()
		if out.String() != "\r\x1b[K" {
			t.Errorf("%q", out.String())
		}
		p.Show(Step{Done: 1, Of: 2, Unit: "files"})
		if !strings.Contains(out.String(), "1 of 2 files") {
			t.Errorf("it does not come back: %q", out.String())
		}
		io.WriteString(p.Around(&out), "said meanwhile\n")
		if !strings.HasSuffix(out.String(), "\x1b[?7h\r\x1b[Ksaid meanwhile\n") {
			t.Errorf("it does not give way: %q", out.String())
		}
	})
}
