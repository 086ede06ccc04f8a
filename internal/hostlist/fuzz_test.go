package hostlist

import (
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// However a list of hosts is written, it stands for at least one host and for no more than a cluster has.
func FuzzExpand(f *testing.F) {
	for _, text := range []string{"gpu[08-11]", "a,n[1-2,07]-ib,b", "n[1-60000][1-60000]", "x[[1-2]]", "[[[[",
		"n[1-2],,[-1]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if hosts := Expand(text); text != "" && len(hosts) == 0 || len(hosts) > len(text)+most {
			t.Errorf("%q: %d hosts", text, len(hosts))
		}
	})
}

func BenchmarkWorstExpand(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		Expand(string(text))
		return nil
	},
		hostile.Text{Unit: "[1]"}, hostile.Text{Unit: "[1-2]"}, hostile.Text{Unit: "[1-60000]"},
		hostile.Text{Unit: "[1-60000][1-2]"}, hostile.Text{Unit: "n[1-60000],"}, hostile.Text{Unit: "n%d[1-9],"},
		hostile.Text{Unit: "x", Tail: "[1-60000]"}, hostile.Text{Head: "n[", Unit: "0", Tail: "1-60000]"},
		hostile.Text{Head: "n[", Unit: "%d-%d,", Tail: "1]"},
	)
}
