package cli

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/termsafe"
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
			if err := out.Complete(nil); err != nil || printed.String() != termsafe.Text(text) {
				t.Errorf("cut at %d and %d: %q, %v", first, second, printed.String(), err)
			}
		}
	}
}
