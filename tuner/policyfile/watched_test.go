package policyfile

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// Users of the same files are offered each edit once it means something else. The last one's stop ends the watch.
func TestWatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	l, s := newLoader(), named(file)
	own, err := l.Load(s, telemetry.Log{})
	if err != nil || own.Faulty {
		t.Fatal(err)
	}
	offered := [2]chan *Version{make(chan *Version, 10), make(chan *Version, 10)}
	var stops []func()
	for i := range offered {
		stops = append(stops, l.Watch(s, own, telemetry.Log{}, func(v *Version) { offered[i] <- v }))
	}
	write(t, file, "allreduce,0,inf,rign\n")
	time.Sleep(2 * restFor) // so that the two edits are seen apart
	write(t, file, rows(2))
	var versions [2]*Version
	for i := range offered {
		select {
		case versions[i] = <-offered[i]:
		case <-time.After(10 * time.Minute):
			t.Fatal("nothing is offered")
		}
	}
	if versions[0] != versions[1] || versions[0].EffectDigest() == own.EffectDigest() {
		t.Errorf("offered %v and %v after %v", versions[0], versions[1], own)
	}
	stops[0]()
	if len(l.watched) == 0 {
		t.Error("nobody watches for the second")
	}
	stops[1]()
	if len(l.watched) > 0 {
		t.Error("something still watches")
	}
}

// An edit with a long name is refused at once and in few words: to look for a similar name would take minutes, in which
// no later edit is read.
func TestLongNameDelaysNoEdit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	var r recorder
	l, s := newLoader(), named(file)
	own, err := l.Load(s, r.log())
	if err != nil || own.Faulty {
		t.Fatal(err)
	}
	var offered *Version
	one := &user{func(v *Version) { offered = v }}
	set, _ := l.joinWatch(s, own, r.log(), one)
	for _, edit := range []string{"allreduce,0,inf," + strings.Repeat("x", 1<<19) + ",ll,-1,-1,-1\n", rows(2)} {
		write(t, file, edit)
		set.read(false)
	}
	l.leaveWatch(set, one)
	if offered == nil || offered.EffectDigest() == own.EffectDigest() {
		t.Errorf("offered %v after %v", offered, own)
	}
	long := slices.IndexFunc(r.lines, func(line string) bool { return len(line) > 1000 })
	if long >= 0 || r.count("unknown algorithm") != 1 {
		t.Errorf("%d lines, of which number %d is too long: %.2000q", len(r.lines), long+1, r.lines)
	}
}
