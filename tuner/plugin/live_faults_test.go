//go:build cgo

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// A rank that is killed in the middle of a change does not stop the others' calls,
// and they go on deciding alike. In a real job NCCL would end them.
func TestLiveKill(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	j := startJob(t, built, 4, args("ranks=4 rate=500"), env)
	j.tell("go")
	j.decided(0, 1)
	write(t, file, policyText(2))
	j.decided(0, 2)
	write(t, file, policyText(3))
	j.proposed(2)
	victim := j.ranks[3]
	victim.cmd.Process.Kill()
	<-victim.done
	write(t, file, policyText(4))
	waitCalls(0, 2000, j.ranks[:3]...)
	for _, r := range j.ranks[:3] {
		r.tell("stop")
	}
	calls := j.compare(0)
	seen := j.checkVersions(calls, []int{1, 2, 3}, outcome.byPolicy, allGather, reduceScatter)
	t.Logf("killed after %d calls; the others made %d, by versions %v", victim.count(0), len(calls), seen)
	j.ranks = j.ranks[:3]
	j.end()
}

// A rank that stands still for some seconds during a change, as one does that is
// swapped out or looked at with a debugger.
func TestLiveStop(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	j := startJob(t, built, 4, args("ranks=4 rate=200"), env)
	j.tell("go")
	j.decided(0, 1)
	write(t, file, policyText(2))
	j.proposed(1)
	stopped := j.ranks[2]
	stopped.cmd.Process.Signal(syscall.SIGSTOP)
	waitCalls(0, 1000, j.ranks[0]) // 5 s
	stopped.cmd.Process.Signal(syscall.SIGCONT)
	j.decided(0, 2)
	j.tell("stop")
	j.checkVersions(j.compare(0), []int{1, 2}, outcome.byPolicy, allGather, reduceScatter)
	j.end()
}

// The store's disk is full from some moment on, in the middle of a change of two
// communicators. No call fails, nobody differs, nobody waits longer than for a store
// that answers, and when there is room again the change comes.
func TestLiveFullDisk(t *testing.T) {
	long(t)
	t.Parallel()
	for _, name := range []string{"default", "shared"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inside, outside := smallShm(t)
			file, env := policyFile(t, 1)
			if name == "shared" {
				env = append(env, "NCCL_TUNER_RENDEZVOUS=/dev/shm", "NCCL_TUNER_RENDEZVOUS_TRUST=1")
			}
			j := startJob(t, inside, 4, args("ranks=4 comms=2 rate=500"), env)
			j.tell("go")
			j.decided(0, 1)
			waitCalls(0, 500, j.ranks[0]) // until the rate is known
			write(t, file, policyText(2))
			j.proposed(1)
			filler := filepath.Join(outside, "filler")
			fill(t, filler)
			waitCalls(0, 4000, j.ranks...)
			waitCalls(1, 0, j.ranks...)
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			write(t, file, policyText(3))
			j.decided(0, 3)
			j.decided(1, 3)
			j.tell("stop")
			for context := range 2 {
				seen := j.checkVersions(j.compare(context), []int{1, 2, 3}, outcome.byPolicy, allGather, reduceScatter)
				t.Logf("versions in force: %v", seen)
			}
			if line := j.ranks[0].heard("has waited"); line != "" {
				t.Errorf("a full disk stops calls: %s", line)
			}
			j.end()
		})
	}
}

// The store's disk is full when the ranks start. Those with the same file do without
// its copy there; a rank with another one than the first's fails init, for it cannot get
// that.
func TestLiveFullAtStart(t *testing.T) {
	long(t)
	t.Parallel()
	inside, outside := smallShm(t)
	fill(t, filepath.Join(outside, "filler"))
	_, first := policyFile(t, 1)
	_, other := policyFile(t, 2)
	for _, second := range [][]string{first, other} {
		j := newJob(t)
		j.ranks = append(j.ranks, j.launch(inside, 0, args("ranks=2 rate=500"), first))
		j.ranks[0].ready()
		r := j.launch(inside, 1, args("ranks=2 rate=500"), second)
		if second[0] != first[0] {
			if got := r.answer(); !strings.HasPrefix(got, "opened 0: 5 ") {
				t.Errorf("init of a rank with another file: %q", got)
			}
			r.hears("WARN", "init fails", agree.ErrOtherVersion.Error())
			continue
		}
		j.ranks = append(j.ranks, r)
		r.ready()
		j.tell("go")
		waitCalls(0, 500, j.ranks...)
		j.tell("stop")
		j.checkVersions(j.compare(0), []int{1}, outcome.byPolicy, allGather, reduceScatter)
		j.end()
	}
}

// smallShm returns programs whose ranks have a small disk of their own at /dev/shm,
// and where others find it.
func smallShm(t *testing.T) (p programs, outside string) {
	t.Helper()
	holder := exec.Command("unshare", "--mount", "sh", "-c",
		"mount -t tmpfs -o size=2m,mode=1777 tmpfs /dev/shm && echo ready && read x")
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, _ := holder.StdinPipe()
	out, _ := holder.StdoutPipe()
	if err := holder.Start(); err != nil {
		t.Skipf("SKIPPED: no file system of its own for the ranks: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		holder.Wait()
	})
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Skip("SKIPPED: a small tmpfs cannot be mounted; this needs root")
	}
	return wrapped(t, built, "nsenter --mount=/proc/%d/ns/mnt", holder.Process.Pid),
		fmt.Sprintf("/proc/%d/root/dev/shm", holder.Process.Pid)
}

// wrapped returns programs whose ranks are started by a command.
func wrapped(t *testing.T, p programs, format string, a ...any) programs {
	t.Helper()
	with := fmt.Sprintf(format, a...) + " "
	return programs{so: p.so, rank: script(t, with+p.rank), trainer: script(t, with+p.trainer)}
}

// forOthers returns programs for ranks of a user who may not look into the checkout.
func forOthers(t *testing.T) programs {
	t.Helper()
	p := programsIn(t.TempDir())
	os.Chmod(filepath.Dir(p.dir), 0o755)
	if out, err := exec.Command("cp", built.so, built.rank, p.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// script makes a program of a command. No process starts while it is written: that would
// hold the file open for writing until it is the program it is to be, and nobody could
// run the file so long.
func script(t *testing.T, command string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run")
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\"\n", command), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// fill takes all room that a disk has.
func fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// The rendezvous cannot be used for a while in the middle of a change: its
// permissions are gone, or it is mounted read-only.
func TestLiveForbidden(t *testing.T) {
	long(t)
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: who is not root cannot run ranks as another user and mount file systems")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	for _, c := range []struct {
		name           string
		forbid, permit func(dir string) error
	}{
		{"chmod 000", func(dir string) error { return os.Chmod(dir, 0) }, func(dir string) error {
			return os.Chmod(dir, 0o700)
		}},
		{"read-only", func(dir string) error { return remount(dir, syscall.MS_RDONLY) }, func(dir string) error {
			return remount(dir, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			shared := t.TempDir()
			if err := syscall.Mount("tmpfs", shared, "tmpfs", 0, "size=1m,mode=0755"); err != nil {
				t.Skipf("SKIPPED: a tmpfs cannot be mounted: %v", err)
			}
			t.Cleanup(func() { syscall.Unmount(shared, syscall.MNT_DETACH) })
			const nobody = 65534
			if err := os.Chown(shared, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			file, env := policyFile(t, 1)
			j := startJob(t,
				wrapped(t, forOthers(t),
					"setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --pdeathsig=KILL"), 4,
				args("ranks=4 rate=500"), append(env, "NCCL_TUNER_RENDEZVOUS="+shared))
			j.tell("go")
			j.decided(0, 1)
			write(t, file, policyText(2))
			j.proposed(1)
			if err := c.forbid(shared); err != nil {
				t.Fatal(err)
			}
			// Nobody has said that he stands, so nobody needs a decision.
			waitCalls(0, 2000, j.ranks...)
			if err := c.permit(shared); err != nil {
				t.Fatal(err)
			}
			write(t, file, policyText(3))
			j.decided(0, 3)
			j.tell("stop")
			seen := j.checkVersions(j.compare(0), []int{1, 2, 3}, outcome.byPolicy, allGather, reduceScatter)
			t.Logf("versions in force: %v", seen)
			j.end()
		})
	}
}

// remount tries again while a rank has a file open for writing, which is why the kernel
// refuses to make a file system read-only.
func remount(dir string, flags uintptr) (err error) {
	for range patience {
		err = syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=1m")
		if err != syscall.EBUSY {
			break
		}
		time.Sleep(each) // until other processes have done it
	}
	return err
}

// A rank may open no more files, in the middle of a change. Calls go on and are decided alike; the change comes when it
// may again.
func TestLiveDescriptors(t *testing.T) {
	long(t)
	t.Parallel()
	for name, place := range map[string][]string{"default": nil, "shared": {"NCCL_TUNER_RENDEZVOUS=" + t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, env := policyFile(t, 1)
			j := startJob(t, built, 4, args("ranks=4 rate=500"), append(env, place...))
			j.tell("go")
			j.decided(0, 1)
			write(t, file, policyText(2))
			j.proposed(1)
			limit := func(n uint64) {
				var was unix.Rlimit
				pid := j.ranks[1].cmd.Process.Pid
				if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
					t.Fatal(err)
				}
				if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: was.Max}, nil); err != nil {
					t.Fatal(err)
				}
			}
			limit(3)
			waitCalls(0, 4000, j.ranks...)
			limit(1000)
			write(t, file, policyText(3))
			j.decided(0, 3)
			j.tell("stop")
			seen := j.checkVersions(j.compare(0), []int{1, 2, 3}, outcome.byPolicy, allGather, reduceScatter)
			t.Logf("versions in force: %v", seen)
			if line := j.ranks[1].heard("has waited"); line != "" {
				t.Errorf("a call waits for descriptors: %s", line)
			}
			j.end()
		})
	}
}
