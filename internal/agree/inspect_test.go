package agree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// outside is a simulated world's store under the communicator's proper name.
type outside struct{ *memHandle }

func (w *world) outside() outside { return outside{w.store.Handle("outside", 0, memFaults{})} }

var simulated = CommKey(7, 3)

func (o outside) Made(ctx context.Context, dir string) (map[string]time.Time, error) {
	made, err := o.memHandle.Made(ctx, dir)
	named := map[string]time.Time{}
	for key, at := range made {
		named[strings.Replace(key, "comm", simulated, 1)] = at
	}
	return named, err
}

func (o outside) Get(ctx context.Context, key string) ([]byte, bool, error) {
	return o.memHandle.Get(ctx, strings.Replace(key, simulated, "comm", 1))
}

// look returns the one communicator of the world.
func (w *world) look(t *testing.T, in *Inspector) Communicator {
	t.Helper()
	all, err := in.Communicators(context.Background())
	if err != nil || len(all) != 1 || all[0].ID != 7 || all[0].Ranks != 3 || len(all[0].Faults) > 0 {
		t.Errorf("%+v, %v", all, err)
		return Communicator{Ranks: 3}
	}
	return all[0]
}

// seenFrom simulates p and returns how it looks from outside at some times, and at
// the end. No record is removed.
func seenFrom(t *testing.T, p plan, at ...time.Duration) (seen []Communicator) {
	t.Helper()
	p.tamper = func(_ int, op memOp, f memFate) memFate {
		k, _ := ParseKey(op.Key)
		f.Lost = f.Lost || op.Kind == "put" && op.Key == keys("comm").ended() ||
			op.Kind == "remove" && k.kind != kindOpen
		return f
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{plan: p}
		var mu sync.Mutex
		var in *Inspector
		for _, when := range at {
			w.events = append(w.events, event{when, func(w *world) {
				mu.Lock()
				defer mu.Unlock()
				if in == nil {
					in = Inspect(w.outside())
				}
				seen = append(seen, w.look(t, in))
			}})
		}
		w.run()
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, w.look(t, Inspect(w.outside())))
		w.report(t, false)
	})
	return seen
}

func slots(c Communicator, is func(Slot) bool) (some []int) {
	for _, s := range c.Slots {
		if is(s) {
			some = append(some, s.Index)
		}
	}
	return some
}

func left(s Slot) bool { return s.Left }

func TestInspectChange(t *testing.T) {
	p := usual(1)
	p.saved(2*time.Second, "B", 1)
	var every10 []time.Duration
	for at := time.Second; at < 5*time.Second; at += 10 * time.Millisecond {
		every10 = append(every10, at)
	}
	seen := seenFrom(t, p, every10...)
	first, last := seen[0], seen[len(seen)-1]
	if v, since := first.InForce(); v.EffectDigest != "A" || !since.Equal(first.Started) || underWay(first) != nil ||
		len(first.Slots) != 3 || len(first.Changes) != 0 {
		t.Errorf("before: %+v", first)
	}
	if ids := slots(first, func(s Slot) bool {
		return s.Identity == fmt.Sprintf("rank-%d", s.Index) &&
			!s.Left
	}); len(ids) != 3 {
		t.Errorf("slots: %+v", first.Slots)
	}
	acks := map[int]bool{}
	for _, c := range seen {
		v, _ := c.InForce()
		if change := underWay(c); change != nil {
			acks[len(change.Acks)] = true
			if v.EffectDigest != "A" || change.Proposal.EffectDigest != "B" || change.Proposal.Slot != 1 || change.K != 1 {
				t.Errorf("pending: %+v", c)
			}
		}
	}
	if !acks[0] || !acks[1] || !acks[2] {
		t.Errorf("numbers of acknowledgements seen: %v", acks)
	}
	v, since := last.InForce()
	if v.EffectDigest != "B" || since.Before(last.Changes[0].Proposed) || underWay(last) != nil || last.Frozen() != nil ||
		!slices.Equal(slots(last, left), []int{0, 1, 2}) {
		t.Errorf("after: %+v", last)
	}
	if all := last.Versions(); len(all) != 2 || all[0].EffectDigest != "A" || all[1].EffectDigest != "B" ||
		all[1].Key() != keys("comm").of(kindContent, 1)+"/"+DigestOf([]byte("B")) {
		t.Errorf("versions: %v", all)
	}
}

func TestInspectRefusals(t *testing.T) {
	refused := usual(2)
	refused.stage = func(rank int, content string) error {
		if rank == 2 && content == "B" {
			return errors.New("too new")
		}
		return nil
	}
	refused.saved(time.Second, "B", 0)
	misaligned := usual(3)
	misaligned.phantom = once(1, 10)
	misaligned.saved(time.Second, "B")
	absent := usual(4)
	absent.absent = map[int]bool{1: true}
	absent.saved(time.Second, "B")
	crashed := usual(5)
	crashed.events = []event{{3 * time.Second, func(w *world) { w.crash(1) }}}
	for name, c := range map[string]struct {
		plan
		check func(c Communicator) bool
	}{
		"refused": {refused, func(c Communicator) bool {
			d := c.Changes[0].Decision
			return len(c.Changes) == 4 && d.Abort == CannotStage && d.Detail == "too new" && d.By == 2 &&
				c.Frozen() == nil && underWay(c) == nil
		}},
		"misaligned": {misaligned, func(c Communicator) bool {
			return c.Frozen() == nil && c.Changes[0].Decision.Abort == Misaligned
		}},
		"absent": {absent, func(c Communicator) bool {
			return len(c.Slots) == 2 && len(c.Changes) == 0
		}},
		"crashed": {crashed, func(c Communicator) bool {
			return len(c.Slots) == 3 && slices.Equal(slots(c, left), []int{0, 2})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := seenFrom(t, c.plan)
			end := seen[len(seen)-1]
			if v, _ := end.InForce(); v.EffectDigest != "A" || !c.check(end) {
				t.Errorf("%+v", end)
			}
		})
	}
}

// A change that a second communicator has ruled out was never proposed.
func TestInspectDuplicate(t *testing.T) {
	p := usual(6)
	p.comms = 2
	seen := seenFrom(t, p)
	frozen := seen[0].Frozen()
	if frozen == nil || frozen.Proposal != nil || frozen.Decision.Abort != Duplicate || underWay(seen[0]) != nil {
		t.Errorf("%+v", seen[0])
	}
}

// What is not of the protocol is passed over, what is damaged named.
func TestInspectForeignRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newMemStore().Handle("outside", 0, memFaults{})
		ctx := context.Background()
		for key, value := range map[string]string{
			"c/" + simulated + "/init":     `{"content":"x","meaning":"y"}`,
			"c/" + simulated + "/slot/1":   "rank-1",
			"c/" + simulated + "/left/0":   "", // who has no slot cannot have left it
			"c/" + simulated + "/a/1/0-12": "",
			"c/" + simulated + "/d/1":      "no JSON",
			"c/" + simulated + "/d/x":      "{}",
			"c/" + simulated + "/what":     "",
			"c/" + simulated + "/slot/1/2": "",
			"c/readme.txt":                 "",
			"c/7-3/init":                   "{}",
			"c/notes/init":                 "{}",
			"c/" + simulated + "/history":  "kept",
			"c/" + simulated + "-x/init":   "{}",
			"open/" + simulated + ".1":     "",
			"ended/" + simulated:           "",
			"p/" + simulated + ".x":        "{}",
			"p/x":                          "",
		} {
			if _, err := h.PutOnce(ctx, key, []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		all, err := Inspect(h).Communicators(ctx)
		if err != nil || len(all) != 1 || len(all[0].Slots) != 1 || len(all[0].Changes) != 0 ||
			all[0].Start.EffectDigest != "y" {
			t.Fatalf("%+v, %v", all, err)
		}
		if f := all[0].Faults; len(f) != 1 ||
			!strings.HasPrefix(f[0], "c/"+simulated+"/d/1: this is no decision") {
			t.Errorf("%v", f)
		}
		h.SetDown(true, false)
		if _, err := Inspect(h).Communicators(ctx); !errors.Is(err, errDown) {
			t.Errorf("%v", err)
		}
	})
}

// A later communicator of the same id has a key of its own.
func TestInspectGeneration(t *testing.T) {
	h := newMemStore().Handle("outside", 0, memFaults{})
	for _, key := range []string{"c/" + simulated + "/init", "c/" + simulated + "-1/init"} {
		if _, err := h.PutOnce(t.Context(), key, []byte(`{"content":"x","meaning":"y"}`)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Inspect(h).Communicators(t.Context())
	slices.SortFunc(all, func(a, b Communicator) int { return strings.Compare(a.Key, b.Key) })
	if err != nil || len(all) != 2 || all[0].Key != simulated || all[1].Key != simulated+"-1" || all[1].ID != 7 ||
		all[1].Ranks != 3 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A second look reads what is new only.
func TestInspectorRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newMemStore().Handle("outside", 0, memFaults{})
		ctx := context.Background()
		put := func(key string, value []byte) {
			if _, err := h.PutOnce(ctx, key, value); err != nil {
				t.Fatal(err)
			}
		}
		k := keys(simulated)
		put(k.dir(kindInit), encode(VersionID{Content: DigestOf([]byte("A")), EffectDigest: "a"}))
		put(VersionID{Content: DigestOf([]byte("A"))}.Key(), []byte("A"))
		in := Inspect(h)
		look := func(want int) Communicator {
			t.Helper()
			before := h.Count("get")
			all, err := in.Communicators(ctx)
			if err != nil || len(all) != 1 || h.Count("get")-before != want {
				t.Fatalf("%+v, %v, after %d gets", all, err, h.Count("get")-before)
			}
			return all[0]
		}
		look(1)
		put(k.proposal(1), encode(Proposal{VersionID: VersionID{Content: "x", EffectDigest: "b"}, Check: 1, Switch: 2}))
		put(k.ack(1, 5, 0, 2), nil)
		c := look(1)
		if p := underWay(c); p == nil || len(p.Acks) != 2 || !p.Acks[2] || !p.Acks[0] {
			t.Errorf("%+v", p)
		}
		look(0)
		if content, err := in.Content(ctx, c.Start); err != nil || !bytes.Equal(content, []byte("A")) {
			t.Errorf("%q, %v", content, err)
		}
		if _, err := in.Content(ctx, underWay(c).Proposal.VersionID); err == nil {
			t.Error("a version that is not there is read")
		}
	})
}

// Communicators that have had one id follow each other in the order of their lives.
func TestInspectorOrder(t *testing.T) {
	t.Parallel()
	h := newMemStore().Handle("outside", 0, memFaults{})
	want := []string{CommKey(7, 2)}
	for n := 1; n <= 12; n++ {
		want = append(want, fmt.Sprintf("%s-%d", want[0], n))
	}
	for _, comm := range want {
		if _, err := h.PutOnce(t.Context(), keys(comm).dir(kindInit), encode(VersionID{})); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Inspect(h).Communicators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range all {
		got = append(got, c.Key)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// underWay returns the change that is proposed and not decided, or nil.
func underWay(c Communicator) *Change {
	if n := len(c.Changes); n > 0 && c.Changes[n-1].Decision == nil {
		return &c.Changes[n-1]
	}
	return nil
}
