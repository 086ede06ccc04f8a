package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
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

// The library refuses such a file, so whoever looks at it must not see what it would decide.
func TestReadDeciderRefusesLargeFiles(t *testing.T) {
	file, most := filepath.Join(t.TempDir(), "p.csv"), bytes.Repeat([]byte("\n"), model.MaxFileBytes)
	for _, c := range []struct {
		text []byte
		want string
	}{{most, ""}, {append(most, '\n'), "larger than the 64 MiB that the plugin reads"}} {
		if err := os.WriteFile(file, c.text, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := new(Inputs).Decider(file, KindPolicy)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes: %v, want %q", len(c.text), err, c.want)
		}
	}
}
