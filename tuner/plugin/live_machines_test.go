//go:build cgo

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// machine returns programs whose ranks each have a machine of their own, as far as the
// plugin can tell: a name and a memory that the processes of a machine share.
func machine(t *testing.T, i int) programs {
	t.Helper()
	return wrapped(t, built,
		`unshare --mount --uts --ipc sh -c 'hostname machine-%d && mount -t tmpfs -o size=4m,mode=1777 tmpfs /dev/shm && exec "$0" "$@"'`, i)
}

// beside returns programs whose ranks are on the machine of another one.
func beside(t *testing.T, r *rank) programs {
	t.Helper()
	pid := r.cmd.Process.Pid
	return wrapped(t, built, "nsenter --mount=/proc/%d/ns/mnt --uts=/proc/%d/ns/uts --ipc=/proc/%d/ns/ipc",
		pid, pid, pid)
}

// mirrors reports whether the process is the one that acts for all ranks of its
// machine: it alone holds a lock exclusively.
func (r *rank) mirrors() bool {
	r.job.Helper()
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		r.job.Fatal(err)
	}
	for line := range strings.Lines(string(locks)) {
		f := strings.Fields(line)
		if len(f) > 4 && f[1] == "POSIX" && f[3] == "WRITE" && f[4] == fmt.Sprint(r.cmd.Process.Pid) {
			return true
		}
	}
	return false
}

// Two communicators that connect more than 64 machines, by what NCCL tells the plugin: so many that
// one process of each machine acts for its ranks. Nine machines of eight ranks do for that here.
// Each machine is a process that plays all its ranks, but the first: there a process for each
// communicator is at work. That of the second one acts for both, and is killed in the middle of
// a change of both: the other process takes over and its communicator changes, while the one
// that misses ranks stays as it is.
func TestLiveMachines(t *testing.T) {
	long(t)
	if out, err := exec.Command("unshare", "--mount", "--uts", "--ipc", "mount", "-t", "tmpfs", "tmpfs",
		"/dev/shm").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: machines cannot be played here, this needs root: %v, %s", err, out)
	}
	t.Parallel()
	const machines, gpus, nodes = 9, 8, 65
	const changed, kept = 0, 1 // the communicators
	file, env := policyFile(t, 1)
	shared := t.TempDir()
	env = append(env, "NCCL_TUNER_RENDEZVOUS="+shared)
	shape := fmt.Sprintf("contexts=%d ranks=%d nodes=%d rate=20 haste=2", gpus, machines*gpus, nodes)

	all := newJob(t)
	launch := func(p programs, more string) *rank {
		r := all.launch(p, len(all.ranks), args("%s %s", shape, more), env)
		all.ranks = append(all.ranks, r)
		return r
	}
	victim := launch(machine(t, 0), "comms=0")
	victim.ready()
	for range gpus {
		victim.opened(victim.tell(fmt.Sprint("open ", kept)))
	}
	eventually(t, "the first process of a machine acts for all", victim.mirrors)
	heir := launch(beside(t, victim), "comms=1")
	heir.ready()
	for i := 1; i < machines; i++ {
		launch(machine(t, i), "comms=2")
	}
	for _, r := range all.ranks[2:] {
		r.ready()
	}
	others := &job{TB: t, dir: all.dir, seed: all.seed, ranks: all.ranks[2:]}
	first := &job{TB: t, dir: all.dir, seed: all.seed, ranks: all.ranks[1:]}

	all.tell("go")
	first.decided(0, 1)
	waitCalls(0, 50, all.ranks...) // until the rate is known
	write(t, file, policyText(2))
	for comm := range 2 {
		all.proposedAfter(comm, 0)
	}
	victim.cmd.Process.Kill()
	<-victim.done
	all.ranks = all.ranks[1:]
	eventually(t, "another process takes over", heir.mirrors)

	acks := filepath.Join(shared, "c", agree.CommKey(all.comm(changed), machines*gpus), "a", "1")
	eventually(t, "most machines acknowledge the change", func() bool {
		names, _ := filepath.Glob(filepath.Join(acks, "[0-9]*"))
		for _, name := range names {
			if strings.Count(filepath.Base(name), ".") != gpus-1 {
				t.Fatalf("%s is not for all ranks of a machine", name)
			}
		}
		return len(names) > machines/2
	})
	for gpu := range gpus {
		first.decided(gpu, 2)
	}
	for _, r := range others.ranks {
		r.hears(all.about(kept), "change 1: aborted")
	}
	all.tell("stop")
	of := func(comm int) (contexts []int) {
		for gpu := range gpus {
			contexts = append(contexts, comm*gpus+gpu)
		}
		return contexts
	}
	whole := first.compare(of(changed)...)
	seen := all.checkVersions(whole, []int{1, 2}, outcome.byPolicy, allGather, reduceScatter)
	t.Logf("%d calls on each of %d ranks, versions in force: %v", len(whole), machines*gpus, seen)
	maimed := others.compare(of(kept)...)
	others.checkVersions(maimed, []int{1}, outcome.byPolicy, allGather, reduceScatter)
	for gpu := range gpus {
		for i, c := range victim.calls(gpu, 0) {
			if i >= len(maimed) || c.outcome != maimed[i].outcome {
				t.Fatalf("the process that was killed decided call %d unlike the others: %+v", i, c.outcome)
			}
		}
	}
	all.end()
}
