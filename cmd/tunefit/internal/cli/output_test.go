package cli

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// However a text comes in pieces, it is escaped as a whole, and none of it is lost.
func TestOutputInPieces(t *testing.T) {
	const text = "µs\r\n\u202e\r\xff\xe2\x80 größer \U000e0001\xe2\x80"
	for first := range len(text) {
		for second := first; second < len(text); second++ {
			var printed strings.Builder
			out := &Output{Writer: &printed}
			for _, piece := range []string{text[:first], text[first:second], text[second:]} {
				if n, err := out.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatalf("%q: %d, %v", piece, n, err)
				}
			}
			if err := out.Complete(nil); err != nil || printed.String() != wording.Text(text) {
				t.Errorf("cut at %d and %d: %q, %v", first, second, printed.String(), err)
			}
		}
	}
}

// A command that prints nothing needs no place to print to.
func TestNothingToPrint(t *testing.T) {
	closed, writer := io.Pipe()
	closed.Close()
	if err := (&Output{Writer: writer}).Complete(nil); err != nil {
		t.Error(err)
	}
}

// Whatever prints for whatever else, what steers a terminal reaches it as it is, after the text before it.
func TestSteerThroughPrinters(t *testing.T) {
	var terminal strings.Builder
	var w io.Writer = &terminal
	for range 2 {
		w = Printable{&Output{Writer: w}}
	}
	io.WriteString(w, "50 %\x1b")
	if err := Steer(w, "\r\x1b[K"); err != nil || terminal.String() != `50 %\u001b`+"\r\x1b[K" {
		t.Errorf("%q, %v", terminal.String(), err)
	}
}

// A terminal is one behind printers, too.
func TestTerminalBehindPrinters(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	t.Setenv("TERM", "xterm")
	if !IsTerminal(Printable{&Output{Writer: Printable{device}}}) {
		t.Error("a character device passes for a file")
	}
}
