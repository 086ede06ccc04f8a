package hostile

import (
	"errors"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	if got := string(Text{"<", "a%d%d,", ">"}.Of(12)); got != "<a00,a11,a22,>" {
		t.Error(got)
	}
}

// Ten times as slow as linear passes, since the machine may be loaded, and its processor predicts the branches of small
// inputs. The square of the size and 100 kB/s do not.
func TestTooSlow(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		times []time.Duration
		want  bool
	}{
		{"linear", []time.Duration{2 * ms, 8 * ms, 32 * ms, 128 * ms, 512 * ms}, false},
		{"under load", []time.Duration{2 * ms, 8 * ms, 32 * ms, 128 * ms, 1400 * ms}, false},
		{"predicted", []time.Duration{ms / 4, ms / 2, 4 * ms, 90 * ms, 380 * ms}, false},
		{"square, but soon done", []time.Duration{0, 1 * ms, 16 * ms, 256 * ms}, false},
		{"square", []time.Duration{0, 1 * ms, 16 * ms, 256 * ms, 4096 * ms}, true},
		{"slow", []time.Duration{60 * ms, 240 * ms, 960 * ms}, true},
		{"slow to start", []time.Duration{250 * ms}, false},
	} {
		size := least << (2 * (len(c.times) - 1))
		if tooSlow(size, c.times) != c.want {
			t.Errorf("%s: %t", c.name, !c.want)
		}
	}
}

// An error that repeats the input fails.
func TestLongError(t *testing.T) {
	repeats := testing.Benchmark(func(b *testing.B) {
		Benchmark(b, func(text []byte) error { return errors.New("wrong: " + string(text)) })
	})
	if repeats.N != 0 {
		t.Error("it passes")
	}
}
