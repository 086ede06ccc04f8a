package bench

import "testing"

// Of two hosts that a glued line may name, it is the one of the longer name.
func TestGluedHost(t *testing.T) {
	known := hosts{"n1": true, "gpu-n1": true, "u-n1": true}
	for range 20 { // hosts are a map
		l, ok := known.split([]byte("float sum -1gpu-n1:12:13 [0] NCCL INFO x"))
		if !ok || l.process != "gpu-n1:12:13" || string(l.row) != "float sum -1" || string(l.message) != "x" {
			t.Fatalf("%q of %q: %q", l.row, l.process, l.message)
		}
	}
}
