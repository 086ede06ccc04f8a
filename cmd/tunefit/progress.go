package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// progress is one line on a terminal that says how far some work has come. Elsewhere
// it says nothing.
type progress struct {
	w           io.Writer // nil: say nothing
	what        string
	done, total int64
	at          string // what is at work on, a file say
	shown       string
}

func newProgress(w io.Writer, what string, total int64) *progress {
	if p, ok := w.(printable); ok {
		w = p.Writer
	}
	if total < 2 || !isTerminal(w) {
		return &progress{}
	}
	return &progress{w: w, what: what, total: total}
}

// sizeOf is the work that reading files is. One that cannot be found is reported
// where it is opened.
func sizeOf(files []string) (bytes int64) {
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// add counts work done.
func (p *progress) add(n int64) {
	p.done += n
	p.show()
}

// turnTo says what is worked on now.
func (p *progress) turnTo(at string) {
	p.at = at
	p.show()
}

const barWidth = 24

func (p *progress) show() {
	if p.w == nil {
		return
	}
	share := min(1, float64(p.done)/float64(p.total))
	full := int(share * barWidth)
	line := fmt.Sprintf("%s [%s%s] %3.0f %% %s", p.what, strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), 100*share, p.at)
	if line != p.shown {
		p.shown = line
		fmt.Fprint(p.w, "\r\x1b[K", line)
	}
}

// end wipes the line.
func (p *progress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// reader counts what is read from r.
func (p *progress) reader(r io.Reader) io.Reader { return &countingReader{r, p} }

type countingReader struct {
	io.Reader
	p *progress
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.p.add(int64(n))
	return n, err
}
