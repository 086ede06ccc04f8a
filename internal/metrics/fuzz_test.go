package metrics

import (
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// Values reads pages of other processes.
func FuzzValues(f *testing.F) {
	f.Add(Calls.Name+`{comm_id="0x1",rank="0"} 12`+"\n"+Calls.Name+`{comm_id="0x1"} NaN`, "0x1")
	f.Add(Calls.Name+`{} `, "")
	f.Fuzz(func(t *testing.T, text, value string) {
		all := Values(text, Calls, "comm_id", value)
		if twice := Values(text+"\n"+text, Calls, "comm_id", value); len(twice) != 2*len(all) {
			t.Errorf("%d values, and twice the text has %d", len(all), len(twice))
		}
	})
}

func BenchmarkWorstValues(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		Values(string(text), Calls, "comm_id", "0x1")
		return nil
	},
		hostile.Text{Unit: Calls.Name + "{comm_id=\"0x1\"} 12\n"}, hostile.Text{Head: Calls.Name + "{", Unit: "} "},
		hostile.Text{Head: Calls.Name + "{", Unit: `comm_id="0x1",`, Tail: "} 1"},
	)
}
