//go:build cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// A rank stands for a change, and no decision reaches it or leaves it. Then another rank ends
// that communicator, and the rank that waits ends the other one it is in: all come to
// an end, the other ranks go on, and a rank that leaves a change which it has promised
// nothing for aborts it. What was decided is in force when the rank learns of it.
func TestLiveFinalizeBesideWaiting(t *testing.T) {
	long(t)
	t.Parallel()
	const waited, other = 0, 1 // communicators, and the contexts of each rank
	file, env := policyFile(t, 1)
	shared := t.TempDir()
	j := newJob(t)
	shape := args("ranks=4 comms=2 rate=500 haste=2")
	for i := range 3 {
		j.ranks = append(j.ranks, j.launch(built, i, shape, append(env, "NCCL_TUNER_RENDEZVOUS="+shared)))
	}
	for _, r := range j.ranks {
		r.ready()
	}
	view, show := hideDecisions(t, shared, agree.CommKey(j.comm(waited), 4))
	_, env = policyFile(t, 1) // its own, for it cannot commit what it would propose
	waiter := j.launch(built, 3, shape, append(env, "NCCL_TUNER_RENDEZVOUS="+view))
	waiter.ready()
	others := &job{TB: t, dir: j.dir, seed: j.seed, ranks: j.ranks}
	j.ranks = append(j.ranks, waiter)
	waiter.tell(fmt.Sprint("aside ", waited)) // what waits there holds up nothing else
	j.tell("go")
	waitCalls(waited, 500, j.ranks...) // until the rate is known

	write(t, file, policyText(2))
	_, p := j.proposedAfter(waited, 0)
	others.decided(waited, 2)
	j.decided(other, 2)
	waiter.hears(j.about(waited), waits)
	j.ranks[1].tell(fmt.Sprint("close ", waited))
	waiter.tell(fmt.Sprint("close ", other))
	waitCalls(waited, 500, j.ranks[0], j.ranks[2])
	waitCalls(other, 500, others.ranks...)
	const looks = 256 // calls after S among which the ranks find one to meet at
	if n := waiter.count(waited); n < p.swap || n > p.swap+looks {
		t.Errorf("the rank that knows no decision has made %d calls, and S is %d", n, p.swap)
	}

	others.tell("stop") // nobody comes to the checkpoint of what follows
	last := j.proposals(other)
	write(t, file, policyText(3))
	leaver, p := others.proposedAfter(other, last)
	leaver.tell(fmt.Sprint("close ", other))
	for _, r := range others.ranks {
		if r != leaver {
			r.hears(j.about(other), fmt.Sprintf("change %d: aborted, leaving by rank index", p.k))
		}
	}

	show()
	waitCalls(waited, 40, waiter)
	if v := waiter.latest(waited); v != 2 {
		t.Errorf("the rank that waited decides by version %d", v)
	}
	for context := range 2 {
		j.checkVersions(j.compare(context), []int{1, 2}, outcome.byPolicy, allGather, reduceScatter)
	}
	j.end()
}

// NCCL aborts a communicator on another thread while a call of it waits for a decision that does not
// come: finalize ends the wait, that call fails, and the process goes on.
func TestLiveAbort(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	shared := t.TempDir()
	j := newJob(t)
	shape := args("ranks=2 comms=2 rate=500")
	j.ranks = append(j.ranks, j.launch(built, 0, shape, append(env, "NCCL_TUNER_RENDEZVOUS="+shared)))
	j.ranks[0].ready()
	view, _ := hideDecisions(t, shared, agree.CommKey(j.comm(0), 2))
	_, env = policyFile(t, 1)
	waiter := j.launch(built, 1, shape, append(env, "NCCL_TUNER_RENDEZVOUS="+view))
	waiter.ready()
	j.ranks = append(j.ranks, waiter)
	waiter.tell("aside 0")
	j.tell("go")
	waitCalls(0, 500, j.ranks...)
	write(t, file, policyText(2))
	waiter.hears(j.about(0), waits)
	if answer := waiter.tell("abort 0"); !strings.HasPrefix(answer, "call ") {
		t.Errorf("the call that waited: %s", answer)
	}
	waitCalls(1, 500, j.ranks...)
	j.end()
}

// hideDecisions returns another path to a directory that ranks share, on which the
// decisions of a communicator can neither be read nor written until they are shown.
// Others have joined it there.
func hideDecisions(t *testing.T, shared, comm string) (view string, show func()) {
	t.Helper()
	view = t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	link := func(path string) {
		t.Helper()
		must(os.Symlink(filepath.Join(shared, path), filepath.Join(view, path)))
	}
	must(os.MkdirAll(filepath.Join(view, "c", comm), 0o700))
	for _, dir := range []string{"p", "open", "ended"} {
		must(os.MkdirAll(filepath.Join(shared, dir), 0o700))
		link(dir)
	}
	for _, part := range []string{"a", "d", "m", "t", "v", "left"} {
		must(os.MkdirAll(filepath.Join(shared, "c", comm, part), 0o700))
	}
	link("blob")
	for _, dir := range list(t, filepath.Join(shared, "c")) {
		if dir != comm {
			link(filepath.Join("c", dir))
		}
	}
	for _, part := range []string{"slot", "a", "m", "t", "v", "left"} {
		link(filepath.Join("c", comm, part))
	}
	start := filepath.Join("c", comm, "init") // a record, and a symbolic link would be one too
	must(os.Link(filepath.Join(shared, start), filepath.Join(view, start)))
	decisions, nowhere := filepath.Join("c", comm, "d"), filepath.Join(view, "nowhere")
	must(os.Symlink(nowhere, filepath.Join(view, decisions)))
	return view, func() { // at one stroke, for the rank makes a directory that is missing
		t.Helper()
		must(os.Symlink(filepath.Join(shared, decisions), nowhere))
	}
}
