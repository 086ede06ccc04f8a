package tuner

import (
	"testing"
)

// A content from the ranks' store may be anything: it is refused, or comes back as
// the same bundle.
func FuzzBundle(f *testing.F) {
	for _, b := range []bundle{{}, {policy: source{"p.csv", []byte(rows(1))}}, {policy: source{"p.csv", []byte(rows(2))}, model: source{"m.json", []byte("{}")}}} {
		f.Add(b.encode())
	}
	f.Add([]byte(bundleFormat + `{"PolicyLen":-1,"ModelLen":1}` + "\n"))
	f.Add([]byte(bundleFormat + `{"PolicyLen":9223372036854775807,"ModelLen":9223372036854775807}` + "\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		b, err := decodeBundle(content)
		if err != nil {
			return
		}
		again, err := decodeBundle(b.encode())
		if err != nil || again.policy.name != b.policy.name || string(again.policy.text) != string(b.policy.text) ||
			again.model.name != b.model.name || string(again.model.text) != string(b.model.text) {
			t.Fatalf("%+v comes back as %+v, %v", b, again, err)
		}
	})
}
