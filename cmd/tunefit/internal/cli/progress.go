package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Line is a line on a terminal that the next text replaces. Elsewhere it says nothing.
type Line struct{ w io.Writer }

// NewLine shows texts on w if that is a terminal.
func NewLine(w io.Writer) *Line {
	if !IsTerminal(w) {
		w = io.Discard
	}
	return &Line{w}
}

// Show replaces the text; with nothing it wipes the line.
func (l *Line) Show(text string) { Steer(l.w, "\r\x1b[K"+wording.Line(text)) }

// Progress is a line that says how far some work has come.
type Progress struct {
	line        *Line
	what        string
	done, total int64
	at          string // what is being worked on, such as a file
	shown       string
}

// NewProgress shows how much of a total was done, on w if that is a terminal and there is more than one thing to do.
func NewProgress(w io.Writer, what string, total int64) *Progress {
	if total < 2 {
		w = io.Discard
	}
	return &Progress{line: NewLine(w), what: what, total: max(1, total)}
}

// SizeOf is the work of reading files, in bytes. Opening a file reports one that is missing.
func SizeOf(files []string) (bytes int64) {
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// Add counts work done.
func (p *Progress) Add(n int64) {
	p.done += n
	p.show()
}

// TurnTo says what is worked on now.
func (p *Progress) TurnTo(at string) {
	p.at = at
	p.show()
}

func (p *Progress) show() {
	text := fmt.Sprintf("%s %3.0f %% %s", p.what, 100*min(1, float64(p.done)/float64(p.total)), p.at)
	if text != p.shown {
		p.shown = text
		p.line.Show(text)
	}
}

// End wipes the line.
func (p *Progress) End() { p.line.Show("") }

// Reader counts what is read from r.
func (p *Progress) Reader(r io.Reader) io.Reader { return &countingReader{r, p} }

type countingReader struct {
	io.Reader
	p *Progress
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.p.Add(int64(n))
	return n, err
}
