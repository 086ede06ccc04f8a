package policyfile

import (
	"path/filepath"
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
	if err != nil || !own.Valid {
		t.Fatal(err)
	}
	offered := [2]chan *Version{make(chan *Version, 10), make(chan *Version, 10)}
	var stops []func()
	for i := range offered {
		stops = append(stops, l.Watch(s, own, telemetry.Log{}, func(v *Version) { offered[i] <- v }))
	}
	write(t, file, "allreduce,0,inf,rign\n")
	time.Sleep(2 * restFor)
	write(t, file, rows(2))
	var versions [2]*Version
	for i := range offered {
		select {
		case versions[i] = <-offered[i]:
		case <-time.After(time.Minute):
			t.Fatal("nothing is offered")
		}
	}
	if versions[0] != versions[1] || versions[0].Meaning() == own.Meaning() {
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
