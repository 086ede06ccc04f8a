package cli

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Progress is one line on a terminal that shows how far long work is. Elsewhere it shows nothing. Whoever prints to the
// terminal meanwhile calls Clear first, and so does the end of the work.
type Progress struct {
	w     io.Writer // nil: no terminal
	begun time.Time // when it was first shown
	shown time.Time // when the line was last written; zero: it is not there
}

// Step is how far the work is.
type Step struct {
	Done, Of int
	Unit     string        // what is counted, in plural: files, runs
	About    bool          // Of is an estimate
	Share    float64       // of the work that is done, where units differ in size; 0: Done of Of
	Left     time.Duration // 0: estimated by the time so far
	Now      string        // what is being done
}

// NewProgress shows the progress of work that begins now on w, if that is a terminal.
func NewProgress(w io.Writer) *Progress {
	if !IsTerminal(w) {
		w = nil
	}
	return &Progress{w: w, begun: time.Now()}
}

const (
	// showEvery is the least time between two texts, since terminals far away are slow.
	showEvery = 100 * time.Millisecond
	// estimateAfter is how long work has to take before its pace tells how long the rest takes.
	estimateAfter = 2 * time.Second
	barWidth      = 20
)

// Show replaces the line, unless it was replaced a moment ago.
func (p *Progress) Show(step Step) {
	if p.w == nil || time.Since(p.shown) < showEvery {
		return
	}
	p.shown = time.Now()
	// The terminal cuts the text off at its edge: a line that wrapped could not be replaced.
	Steer(p.w, "\r\x1b[K\x1b[?7l"+wording.Line(step.text(p.shown.Sub(p.begun)))+"\x1b[?7h")
}

// Clear removes the line. The next Show writes it anew.
func (p *Progress) Clear() {
	if p.w == nil || p.shown.IsZero() {
		return
	}
	p.shown = time.Time{}
	Steer(p.w, "\r\x1b[K")
}

// Around returns w for others to print to, for whose text the line gives way.
func (p *Progress) Around(w io.Writer) io.Writer { return around{w, p} }

type around struct {
	io.Writer
	line *Progress
}

func (a around) Write(text []byte) (int, error) {
	a.line.Clear()
	return a.Writer.Write(text)
}

// text is the line: what matters most comes first, where a narrow terminal shows it.
func (s Step) text(took time.Duration) string {
	share := s.Share
	if share == 0 {
		share = float64(s.Done) / float64(max(1, s.Of))
	}
	share = min(max(share, 0), 1)
	left := s.Left
	if left == 0 && took > estimateAfter && share > 0 {
		left = time.Duration((1 - share) / share * float64(took))
	}
	filled := int(share * barWidth)
	text := fmt.Sprintf("[%s%s] %d of ", strings.Repeat("#", filled), strings.Repeat("-", barWidth-filled), s.Done)
	if s.About {
		text += "about "
	}
	text += fmt.Sprintf("%d %s", s.Of, s.Unit)
	if left > 0 {
		text += ", about " + Roughly(left) + " left"
	}
	if s.Now != "" {
		text += ": " + s.Now
	}
	return text
}

// Roughly writes how long something takes, rounded up.
func Roughly(d time.Duration) string {
	switch {
	case d <= 59*time.Second:
		return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
	case d <= 59*time.Minute:
		return fmt.Sprintf("%.0f min", math.Ceil(d.Minutes()))
	}
	minutes := int(math.Ceil(d.Minutes()))
	return fmt.Sprintf("%d h %02d min", minutes/60, minutes%60)
}
