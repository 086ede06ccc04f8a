// Package hostile measures parsers on inputs that somebody may have made to take long.
package hostile

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Text is an input of any size: Head, Unit as often as the size allows, Tail. In Unit %d is the number of the
// repetition, so that no two are alike.
type Text struct{ Head, Unit, Tail string }

// Of returns the text in some size bytes.
func (t Text) Of(size int) []byte {
	text := append(make([]byte, 0, size+len(t.Head)+len(t.Unit)+len(t.Tail)+64), t.Head...)
	for i := 0; len(text) < size; i++ {
		text = append(text, strings.ReplaceAll(t.Unit, "%d", strconv.Itoa(i))...)
	}
	return append(text, t.Tail...)
}

// ofAnyKind are for every parser: one long line, very many lines, names and columns, brackets and quotes without end.
var ofAnyKind = []Text{
	{Unit: "["}, {Unit: "{"}, {Unit: "("}, {Unit: "<"}, {Unit: "]"}, {Unit: ","}, {Unit: `"`}, {Unit: "'"}, {Unit: `\`},
	{Unit: " "}, {Unit: "\n"}, {Unit: "\x00"}, {Unit: "\xff"}, {Unit: "-"}, {Unit: ":"}, {Unit: "="}, {Unit: "#"},
	{Unit: "1"}, {Unit: "x"}, {Unit: "word "}, {Unit: "%d "}, {Unit: "%d,"}, {Unit: "a%d\n"}, {Unit: "1\n"},
	{Unit: `{"a":`}, {Head: "{", Unit: `"a%d":1,`}, {Unit: "<a>"}, {Unit: "- "}, {Unit: "a%d: 1\n"}, {Unit: "a%d=1\n"},
	{Unit: "[\n"}, {Unit: "\"\n"}, {Unit: ",\n"}, {Unit: "# a\n"}, {Unit: "a%d\t"},
}

const (
	least, most = 4 << 10, 1 << 20 // bytes of an input; each is four times as large as the one before
	longestLine = 4 << 10          // bytes of an error's line

	// What is too slow. A processor predicts the branches of a small input, so that each byte of a large one may take
	// ten times as long. Growth is over three sizes: 64 is linear, 4096 the square.
	negligible = 300 * time.Millisecond
	perByte    = 10 * time.Microsecond
	growth     = 1000
)

// Benchmark measures parse on the one of many inputs that takes it longest: of those for any kind, and of more, which
// should hit what the parser repeats, compares or collects. It fails where time grows faster than the input, and where
// an error repeats much of it. Only the processor's time counts.
func Benchmark(b *testing.B, parse func(text []byte) error, more ...Text) {
	var worst []byte
	var longest time.Duration
	for _, t := range slices.Concat(ofAnyKind, more) {
		var times []time.Duration
		for size := least; size <= most; size *= 4 {
			text := t.Of(size)
			measure := func() time.Duration {
				begin := processorTime()
				err := parse(text)
				took := processorTime() - begin
				if err != nil && longestOf(err) > longestLine {
					b.Fatalf("%d bytes of %.60q, %.60q: an error has a line of %d bytes (allowed: %d)", len(text),
						t.Head, t.Unit, longestOf(err), longestLine)
				}
				return took
			}
			times = append(times, measure())
			last := &times[len(times)-1]
			for try := 0; tooSlow(len(text), times) && try < 2; try++ {
				*last = min(*last, measure())
			}
			if tooSlow(len(text), times) {
				b.Fatalf("%.60q, %.60q: %v for %d bytes, each four times as many as before: %v", t.Head, t.Unit, *last,
					len(text), times)
			}
			if size == most && *last > longest {
				longest, worst = *last, text
			}
		}
	}
	b.SetBytes(int64(len(worst)))
	for b.Loop() {
		_ = parse(worst)
	}
	b.Logf("%v of the processor's time for %.100q", longest, worst)
}

// tooSlow judges the last of the times for ever four times as much.
func tooSlow(size int, times []time.Duration) bool {
	last := len(times) - 1
	took := times[last]
	return took > negligible &&
		(took > time.Duration(size)*perByte || last >= 3 && took > growth*times[last-3])
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func longestOf(err error) (bytes int) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		bytes = max(bytes, len(line))
	}
	return bytes
}
