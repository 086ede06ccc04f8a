//go:build cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Eight ranks of each communicator in one process. On one thread, a rank that waits keeps the others from
// their calls. On a thread each, as in NCCL 2.31 with NCCL_ENQUEUE_REARCH_ENABLE=1, they ask at once.
func TestLiveOneProcess(t *testing.T) {
	long(t)
	t.Parallel()
	for _, threads := range []bool{false, true} {
		t.Run(fmt.Sprintf("threads=%v", threads), func(t *testing.T) {
			t.Parallel()
			file, env := policyFile(t, 1)
			j := startJob(t, built, 1, args("ranks=8 contexts=8 comms=2 rate=300"), env)
			for context := 0; threads && context < 16; context++ {
				j.tell(fmt.Sprint("aside ", context))
			}
			j.tell("go")
			for v := 2; v <= 4; v++ {
				write(t, file, policyText(v))
				j.decided(0, v)
				j.decided(15, v)
			}
			j.tell("stop")
			for context := 0; threads && context < 16; context++ {
				j.tell(fmt.Sprint("close ", context))
			}
			first := []int{0, 1, 2, 3, 4, 5, 6, 7}
			j.checkVersions(j.compare(first...), []int{1, 2, 3, 4}, outcome.byPolicy, allGather, reduceScatter)
			j.checkVersions(j.compare(8, 9, 10, 11, 12, 13, 14, 15), []int{1, 2, 3, 4}, outcome.byPolicy, allGather,
				reduceScatter)
			j.end()
		})
	}
}

// After finalize of its last communicator a process holds nothing open but what Go's
// runtime keeps for its life, and the last process leaves nothing in the store. The
// same processes can start again, even with the same id.
func TestLiveNothingLeft(t *testing.T) {
	long(t)
	t.Parallel()
	inside, shm := smallShm(t)
	file, env := policyFile(t, 1)
	j := startJob(t, inside, 2, args("ranks=2 comms=0 rate=500"), env)
	loaded := map[string]bool{}
	for _, r := range j.ranks {
		for _, open := range strings.Fields(r.tell("left")) {
			loaded[fmt.Sprint(r.id, open)] = true
		}
	}
	j.tell("open 0")
	j.tell("open 1")
	for round := range 3 {
		before := 1 + 2*round
		write(t, file, policyText(before+1))
		j.tell("go")
		j.decided(2*round, before+1)
		j.decided(2*round+1, before+1)
		j.tell("stop")
		for context := 2 * round; context < 2*round+2; context++ {
			j.checkVersions(j.compare(context), []int{before, before + 1}, outcome.byPolicy, allGather, reduceScatter)
		}
		if round == 2 {
			break
		}
		if left := list(t, shm); len(left) != 1 {
			t.Errorf("in the store's place while ranks use it: %q", left)
		}
		j.tell(fmt.Sprint("close ", 2*round))
		j.tell(fmt.Sprint("close ", 2*round+1))
		for _, r := range j.ranks {
			for _, open := range strings.Fields(r.tell("left")) {
				// Go's runtime waits for files by two of these, once that was needed, and
				// keeps the others from its start on, which is not over when dlopen returns.
				runtimes := strings.HasSuffix(open, "[eventpoll]") || strings.HasSuffix(open, "[eventfd]") ||
					strings.Contains(open, "=/sys/fs/cgroup/")
				if !loaded[fmt.Sprint(r.id, open)] && !runtimes && !strings.HasPrefix(open, "threads=") {
					t.Errorf("rank %d: open after finalize: %s", r.id, open)
				}
			}
		}
		if left := list(t, shm); len(left) != 0 {
			t.Errorf("left in the store's place: %q", left)
		}
		write(t, file, policyText(before+2))
		j.tell("open 0")
		j.tell("open 1")
	}
	j.end()
	if left := list(t, shm); len(left) != 0 {
		t.Errorf("left in the store's place: %q", left)
	}
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// What a job leaves that is killed as a whole, the next one on the machine removes.
func TestLiveSweep(t *testing.T) {
	t.Parallel()
	inside, shm := smallShm(t)
	_, env := policyFile(t, 1)
	j := startJob(t, inside, 2, args("ranks=2 rate=500"), env)
	j.tell("go")
	j.decided(0, 1)
	for _, r := range j.ranks {
		r.cmd.Process.Kill()
		<-r.done
	}
	left := list(t, shm)
	if len(left) != 1 {
		t.Fatalf("left by a job that was killed: %q", left)
	}
	old, err := os.Stat(filepath.Join(shm, left[0], "c"))
	if err != nil {
		t.Fatal(err)
	}
	// The same ids: had the next job met the records of the first, it could not change.
	next := startJob(t, inside, 2, args("ranks=2 rate=500 seed=%d", j.seed), env)
	if now, err := os.Stat(filepath.Join(shm, left[0], "c")); err == nil && os.SameFile(old, now) {
		t.Error("the records of a job that was killed are still there")
	}
	for _, r := range next.ranks {
		if line := r.heard("WARN"); line != "" {
			t.Error(line)
		}
	}
	next.end()
	if left := list(t, shm); len(left) != 0 {
		t.Errorf("left in the end: %q", left)
	}
}

// A data loader, forked in the middle of a run, ends as it should, and one that lives
// longer than its parent does not keep the store.
func TestLiveFork(t *testing.T) {
	long(t)
	t.Parallel()
	inside, shm := smallShm(t)
	file, env := policyFile(t, 1)
	j := startJob(t, inside, 2, args("ranks=2 rate=500"), env)
	j.tell("go")
	j.decided(0, 1)
	write(t, file, policyText(2))
	j.proposed(1)
	var child, orphan int
	fmt.Sscanf(j.ranks[0].tell("fork"), "forked %d", &child)
	fmt.Sscanf(j.ranks[0].tell("fork"), "forked %d", &orphan)
	t.Cleanup(func() {
		if p, err := os.FindProcess(orphan); err == nil {
			p.Kill()
		}
	})
	j.decided(0, 2)
	if got := j.ranks[0].tell(fmt.Sprint("reap ", child)); got != "exit status 0" {
		t.Errorf("a forked child ends with: %s", got)
	}
	write(t, file, policyText(3))
	j.decided(0, 3)
	j.tell("stop")
	j.compare(0)
	j.end()
	if left := list(t, shm); len(left) != 0 {
		t.Errorf("a child of a rank keeps the store: %q", left)
	}
}

// A communicator ends on all ranks while it and another one change, and on one rank
// before the others.
func TestLiveFinalize(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	j := startJob(t, built, 4, args("ranks=4 comms=3 rate=500"), env)
	j.tell("go")
	j.decided(0, 1)
	write(t, file, policyText(2))
	j.proposed(1)
	j.tell("close 1")
	j.ranks[0].tell("close 2")
	j.decided(0, 2)
	waitCalls(2, 1000, j.ranks[1:]...) // nobody waits for the rank that left
	write(t, file, policyText(3))
	j.decided(0, 3)
	j.tell("stop")
	for context := range 3 {
		j.checkVersions(j.compare(context), []int{1, 2, 3}, outcome.byPolicy, allGather, reduceScatter)
	}
	j.end()
}
