package wording

import (
	"strings"
	"testing"
	"unicode"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// Nothing that is not printable passes, and no password before a host.
func FuzzLine(f *testing.F) {
	f.Add("\x1b]0;x\a\xff\u202e\r\n\t")
	f.Add("etcd://user:p@ss@host:1")
	f.Fuzz(func(t *testing.T, text string) {
		line := Line(text)
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q leaves %q", text, line)
		}
		if Line(line) != line {
			t.Errorf("%q is escaped twice: %q", line, Line(line))
		}
		if url := "etcd://u:secret" + text + "@h:1"; strings.Contains(HideSecrets(url), "secret") {
			t.Errorf("%q shows as %q", url, HideSecrets(url))
		}
	})
}

func BenchmarkWorstLine(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		Line(string(text))
		HideSecrets(string(text))
		return nil
	}, hostile.Text{Unit: "\u202e"}, hostile.Text{Unit: "\r\n"}, hostile.Text{Unit: "://@"})
}
