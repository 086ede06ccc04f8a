package cli

import (
	"io"
	"strings"
	"testing"
)

// A small file that unpacks to gigabytes ends where it has unpacked to as much as is allowed.
func TestUnpacksTooMuch(t *testing.T) {
	for _, c := range []struct {
		left int64
		want string
	}{{7, ""}, {6, "it unpacks to more than 512 MiB (needed: less, or the file unpacked)"}} {
		_, err := io.ReadAll(&unpacking{strings.NewReader("7 bytes"), c.left})
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("of %d bytes: %v; want %q", c.left, err, c.want)
		}
	}
}
