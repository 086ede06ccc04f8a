package record

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// A recording that is accepted comes back as the same when it is written. An error names the file.
func FuzzRead(f *testing.F) {
	f.Add([]byte(Head + `1,"host":"n","pid":1,"communicators":[{"id":"0x1","rank":1,"nodes":1,"ranks":2,"calls":` +
		`[{"collective":"allreduce","bytes":4096,"channels":2,"calls":3,"algorithm":"ring","decided_by":"p.csv:3"}]}]}`))
	f.Add([]byte(Head + `1,"communicators":[{"id":"x","nodes":1,"ranks":1,"calls":[{"bytes":0}]}]}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Read("r.json", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "r.json: ") {
				t.Errorf("the error names no file: %v", err)
			}
			return
		}
		for _, c := range file.Comms {
			for _, call := range c.Calls {
				if call.Coll < 0 || int(call.Coll) >= nccl.NumColls {
					t.Errorf("collective %d", call.Coll)
				}
			}
		}
		name := filepath.Join(dir, "written")
		if err := file.Write(name); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Read("again.json", written); err != nil || !reflect.DeepEqual(again, file) {
			t.Errorf("%+v comes back as %+v, %v", file, again, err)
		}
	})
}

func BenchmarkWorstRead(b *testing.B) {
	const comm = Head + `1,"communicators":[{"id":"x","ranks":1,"nodes":1,"calls":[`
	hostile.Benchmark(b, func(text []byte) error {
		_, err := Read("r.json", text)
		return err
	},
		hostile.Text{Head: Head + `1,"communicators":[`, Unit: `{"id":"x","ranks":1,"nodes":1},`, Tail: "{}]}"},
		hostile.Text{Head: comm, Unit: `{"bytes":1},`, Tail: "{}]}]}"},
		hostile.Text{Head: comm + `{"collective":"`, Unit: "x", Tail: `"}]}]}`},
		hostile.Text{Head: Head, Unit: "1", Tail: "}"}, hostile.Text{Head: Head + `1,"x":`, Unit: "["},
	)
}
