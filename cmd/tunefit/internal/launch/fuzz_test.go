package launch

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// A template that is accepted is not changed beside its fields.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"mpirun -np {ranks} {command}", "ssh {hosts} '{env} {command}' \"x\"",
		"${x} {ranks}{command", `\{ranks} {command} "{hosts}`, "{nodes} {command} {x}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := parseTemplate(text, true)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "launcher ") {
				t.Errorf("the error names no launcher: %v", err)
			}
			return
		}
		var again strings.Builder
		for i, p := range parts {
			again.WriteString(p.text)
			if p.field != "" {
				again.WriteString("{" + p.field + "}")
			} else if i < len(parts)-1 {
				t.Errorf("%q: a part without a field before the last: %+v", text, parts)
			}
		}
		if again.String() != text {
			t.Errorf("%q comes back as %q", text, again.String())
		}
	})
}

func BenchmarkWorstTemplate(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		_, err := parseTemplate(string(text), true)
		return err
	}, hostile.Text{Unit: "{ranks}"}, hostile.Text{Unit: "${x}"}, hostile.Text{Head: "{", Unit: "x", Tail: "}"},
		hostile.Text{Unit: "{a"})
}
