// Package storetest tests every implementation of agree.Store by the same contract, in one
// process and between several. Only tests use it. What it starts ends with the test.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// Contract tests what any store must do. open returns the view that a process of
// this name has of one store, a fresh one for each t.
func Contract(t *testing.T, open func(t *testing.T, name string) agree.Store) {
	t.Run("the first put stands", func(t *testing.T) { firstPutStands(t, open(t, "one"), open(t, "two")) })
	t.Run("list and remove", func(t *testing.T) { listAndRemove(t, open(t, "one"), open(t, "two")) })
	t.Run("one move takes effect", func(t *testing.T) { moves(t, open(t, "one"), open(t, "two")) })
	t.Run("drop", func(t *testing.T) { drop(t, open(t, "one"), open(t, "two")) })
	t.Run("any value", func(t *testing.T) { anyValue(t, open(t, "one"), open(t, "two")) })
	t.Run("keys stay inside", func(t *testing.T) { keysStayInside(t, open(t, "one")) })
	t.Run("goroutines race", func(t *testing.T) {
		var stores []agree.Store
		for i := range 8 {
			stores = append(stores, open(t, fmt.Sprint(i)))
		}
		goroutinesRace(t, stores)
	})
	t.Run("an operation ends with its context", func(t *testing.T) { endsWithContext(t, open(t, "one")) })
}

// Put puts and fails the test on an error.
func Put(t *testing.T, s agree.Store, key, value string) (stands string) {
	t.Helper()
	got, err := s.PutOnce(t.Context(), key, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func firstPutStands(t *testing.T, one, two agree.Store) {
	for _, c := range []struct {
		by                 agree.Store
		key, value, stands string
	}{
		{one, "c/x/d/1", "commit", "commit"},
		{two, "c/x/d/1", "abort", "commit"},
		{one, "c/x/d/1", "commit", "commit"},
		{two, "c/x/d/3", "", ""},
		{one, "c/x/d/3", "late", ""},
	} {
		if got := Put(t, c.by, c.key, c.value); got != c.stands {
			t.Errorf("put %s %q stands as %q, want %q", c.key, c.value, got, c.stands)
		}
	}
	value, found, err := two.Get(t.Context(), "c/x/d/1")
	if string(value) != "commit" || !found || err != nil {
		t.Errorf("Get: %q, %v, %v", value, found, err)
	}
	if _, found, err := two.Get(t.Context(), "c/x/d/3"); !found || err != nil {
		t.Errorf("Get of an empty record: %v, %v", found, err)
	}
	if _, found, err := two.Get(t.Context(), "c/x/d/2"); found || err != nil {
		t.Errorf("Get of no record: %v, %v", found, err)
	}
}

func listAndRemove(t *testing.T, one, two agree.Store) {
	for _, key := range []string{"c/x/a/1/0-00ff", "c/x/a/1/1.2-00ff", "c/x/a/10/0-00ff", "c/x/d/1", "p/x.1"} {
		Put(t, one, key, "")
	}
	list := func(dir string, want ...string) {
		t.Helper()
		names, err := two.List(t.Context(), dir)
		if slices.Sort(names); !slices.Equal(names, want) || err != nil {
			t.Errorf("List %s: %q, %v, want %q", dir, names, err, want)
		}
	}
	list("c/x/a/1", "0-00ff", "1.2-00ff")
	list("p", "x.1")
	list("c/y/slot")
	if err := one.Remove(t.Context(), "c/x/a/1/0-00ff"); err != nil {
		t.Error(err)
	}
	list("c/x/a/1", "1.2-00ff")
}

func moves(t *testing.T, one, two agree.Store) {
	const from, to, other = "c/x/t/1/0", "c/x/d/1.stall.0.1", "c/x/d/1.slow.0.1"
	Put(t, one, from, "")
	before, err := two.Mark(t.Context(), from)
	if err != nil || before == "" {
		t.Errorf("Mark: %q, %v", before, err)
	}
	if err := two.Move(t.Context(), from, to); err != nil { // below which there is no record yet
		t.Error(err)
	}
	for _, s := range []agree.Store{one, two} {
		for _, late := range []string{to, other} {
			if err := s.Move(t.Context(), from, late); !errors.Is(err, agree.ErrNoRecord) {
				t.Errorf("a late move: %v", err)
			}
		}
		for key, want := range map[string]string{from: "", to: before, other: ""} {
			_, found, err := s.Get(t.Context(), key)
			mark, errMark := s.Mark(t.Context(), key)
			if found != (want != "") || mark != want || err != nil || errMark != nil {
				t.Errorf("%s: found %v, %v; marked %q, %v; want %q", key, found, err, mark, errMark, want)
			}
		}
	}
	Put(t, one, from, "")
	if again, err := two.Mark(t.Context(), from); err != nil || again == "" || again == before {
		t.Errorf("a new record is marked %q, %v, as the one before: %q", again, err, before)
	}
}

func drop(t *testing.T, one, two agree.Store) {
	for _, key := range []string{"c/x/init", "c/x/slot/0", "c/x/a/1/0-5", "c/xy/init", "c/z/a/1/0-5", "c/z/a/12/0-5",
		"ended/x"} {
		Put(t, one, key, "A")
	}
	for _, dir := range []string{"c/x", "c/x", "c/z/a/1", "c/none"} {
		// A second time there may be nothing left that could be dropped.
		if err := two.Remove(t.Context(), dir); err != nil && dir != "c/x" {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, key := range []string{"c/xy/init", "c/z/a/12/0-5", "ended/x"} {
		if _, found, err := two.Get(t.Context(), key); !found || err != nil {
			t.Errorf("%s: found %v, %v", key, found, err)
		}
	}
	if _, found, err := two.Get(t.Context(), "c/z/a/1/0-5"); found || err != nil {
		t.Errorf("dropped: found %v, %v", found, err)
	}
	for _, key := range []string{"c/x/init", "c/x/slot/0"} {
		if _, found, _ := one.Get(t.Context(), key); found {
			t.Errorf("%s is still there", key)
		}
	}
}

func anyValue(t *testing.T, one, two agree.Store) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, value := range [][]byte{{}, {0}, all, []byte("\x00{}"), bytes.Repeat([]byte("row\n"), 1<<18)} {
		key := fmt.Sprintf("blob/%d", i)
		for _, s := range []agree.Store{one, two} {
			if stands, err := s.PutOnce(t.Context(), key, value); err != nil || !bytes.Equal(stands, value) {
				t.Errorf("put of %d bytes: %d stand, %v", len(value), len(stands), err)
			}
		}
		got, found, err := two.Get(t.Context(), key)
		if !bytes.Equal(got, value) || !found || err != nil {
			t.Errorf("of %d bytes %d came back, %v, %v", len(value), len(got), found, err)
		}
	}
}

func keysStayInside(t *testing.T, s agree.Store) {
	for _, key := range []string{"../x", "/etc/x", "a/../../x", "..", ""} {
		if _, err := s.PutOnce(t.Context(), key, nil); err == nil {
			t.Errorf("%q is taken for a key", key)
		}
	}
}

func goroutinesRace(t *testing.T, stores []agree.Store) {
	for i := range 50 {
		key := fmt.Sprintf("c/x/slot/%d", i)
		stands := make([]string, len(stores))
		var all sync.WaitGroup
		for r, s := range stores {
			all.Go(func() {
				v, err := s.PutOnce(t.Context(), key, []byte(fmt.Sprint(r)))
				if err != nil {
					v = []byte(err.Error())
				}
				stands[r] = string(v)
			})
		}
		all.Wait()
		if slices.ContainsFunc(stands, func(s string) bool { return s != stands[0] }) {
			t.Fatalf("%s: %q", key, stands)
		}
	}
}

func endsWithContext(t *testing.T, s agree.Store) {
	Put(t, s, "c/x/d/1", "commit")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.PutOnce(ctx, "c/x/d/2", nil)
	_, _, errGet := s.Get(ctx, "c/x/d/2")
	_, errList := s.List(ctx, "c/x/d")
	for _, err := range []error{err, errGet, errList} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}
