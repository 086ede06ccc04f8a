package agree

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// Keys and values of records, as somebody else may have put them into the store: what a key means comes back as the
// same when it is written, and a look at the store tells of each communicator and names the record that is damaged.
func FuzzRecords(f *testing.F) {
	c := keys(CommKey(0x2a, 2))
	f.Add(c.dir(kindInit), encode(VersionID{Content: "a", EffectDigest: "b"}))
	f.Add(c.slot(1), []byte("id host 1\nname"))
	f.Add(c.proposal(1), encode(Proposal{VersionID: VersionID{Content: "a", EffectDigest: "b"}, Check: 1, Switch: 2, Tag: "t"}))
	f.Add(c.proposal(2), []byte(`{"freeze":true,"slot":-1}`))
	f.Add(c.decision(1, Decision{Commit: true, At: 7, By: 1}), []byte("x"))
	f.Add(c.decision(1, Decision{Abort: CannotStage, By: -1}), []byte{})
	f.Add(c.ack(1, 5, 0, 1), []byte{})
	f.Add(c.arrival(18446744073709551615, 5, 0), []byte{})
	f.Add("c/000000000000002a-2-1/note/3", []byte("{}"))
	f.Add("c/000000000000002a-2/slot/9223372036854775807", []byte{})
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		name := key[strings.LastIndexByte(key, '/')+1:]
		k, known := ParseKey(key)
		if d, ok := k.decision(); ok && d.By < 1<<30 && d.By >= -1 {
			again, _ := ParseKey(c.decision(k.number, d))
			if d2, ok := again.decision(); !ok || again.number != k.number || d2 != d {
				t.Errorf("%q: %d %+v comes back as %d %+v", name, k.number, d, again.number, d2)
			}
		}
		if slots, hash, ok := k.report(); ok {
			again, _ := ParseKey(c.of(k.kind, k.number) + "/" + reportName(hash, slots))
			if slots2, hash2, ok := again.report(); !ok || hash2 != hash || !reflect.DeepEqual(slots, slots2) {
				t.Errorf("%q: %v %x comes back as %v %x", name, slots, hash, slots2, hash2)
			}
		}
		if id, ranks, ok := parseCommKey(name); ok && !strings.HasPrefix(name, CommKey(id, ranks)) {
			t.Errorf("%q is %s", name, CommKey(id, ranks))
		}
		if identity, of := parseSlot(value); strings.Contains(identity, "\n") ||
			of != "" && string((&Config{Identity: identity, Name: of}).slotRecord()) != string(value) {
			t.Errorf("%q is %q of %q", value, of, identity)
		}

		if !known {
			return
		}
		store := newMemStore()
		handle := store.Handle("outside", 0, memFaults{})
		store.Put(handle, key, value)
		store.Put(handle, keys(k.Comm).dir(kindInit), encode(VersionID{Content: "start", EffectDigest: "start"}))
		all, err := Inspect(handle).Communicators(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if c.Key != k.Comm || c.Ranks < 1 {
				t.Errorf("%q: %+v", key, c)
			}
			for _, fault := range c.Faults {
				if !strings.HasPrefix(fault, key+": ") && !strings.HasPrefix(fault, keys(k.Comm).dir(kindInit)+": ") {
					t.Errorf("%q: the error names no record: %v", key, fault)
				}
			}
			c.InForce()
			c.Versions()
			c.Name()
		}
	})
}

func BenchmarkWorstRecords(b *testing.B) {
	c := keys(CommKey(0x2a, 2))
	hostile.Benchmark(b, func(text []byte) (err error) {
		store := newMemStore()
		handle := store.Handle("outside", 0, memFaults{})
		for _, key := range []string{c.dir(kindInit), c.slot(1), c.proposal(1), c.note(3), c.detail(1)} {
			store.Put(handle, key, text)
		}
		for line := range strings.Lines(string(text)) {
			store.Put(handle, strings.TrimSuffix(line, "\n"), nil)
		}
		all, err := Inspect(handle).Communicators(b.Context())
		for _, c := range all {
			for _, fault := range c.Faults[:min(len(c.Faults), 2)] { // the others are about keys, which a store bounds
				err = errors.Join(err, errors.New(fault))
			}
			c.InForce()
			c.Versions()
			c.Name()
		}
		return err
	},
		hostile.Text{Unit: "c/000000000000002a-2/slot/%d\n"}, hostile.Text{Unit: "p/000000000000002a-2.%d\n"},
		hostile.Text{Unit: "c/000000000000002a-2/d/%d.commit.1.1\n"}, hostile.Text{Unit: "c/%d-2/init\n"},
		hostile.Text{Head: "c/000000000000002a-2/a/1/", Unit: "1.", Tail: "1-0"},
		hostile.Text{Head: `{"check":`, Unit: "1", Tail: "}"},
	)
}
