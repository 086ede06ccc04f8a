//go:build cgo

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

// Somebody empties or replaces the rendezvous while ranks change: an epilog that cleans
// up, a file system mounted over it, an older copy. Calls may fail then, and changes may
// end; but no call is decided differently.
func TestLiveVanish(t *testing.T) {
	long(t)
	t.Parallel()
	shell := func(command string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if out, err := exec.Command("sh", "-c", "cd / && D='"+dir+"' && "+command).CombinedOutput(); err != nil {
				t.Logf("%s: %v\n%s", command, err, out)
			}
		}
	}
	moments := []string{"while ranks get ready", "about when they meet"}
	for i, c := range []struct {
		name           string
		before, vanish func(t *testing.T, dir string)
	}{
		{"emptied", nil, shell(`rm -rf "$D"/*`)},
		{"removed", nil, shell(`rm -rf "$D"`)},
		{"made anew", nil, shell(`mv "$D" "$D.old" && mkdir -m 700 "$D"`)},
		{"an older copy", shell(`cp -a "$D" "$D.copy"`), shell(`rm -rf "$D"/* && cp -a "$D.copy"/. "$D"`)},
		{"decisions alone", nil, shell(`rm -rf "$D"/c/*/d`)},
		{"mounted over", nil, func(t *testing.T, dir string) {
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
				t.Skipf("SKIPPED: a tmpfs cannot be mounted: %v", err)
			}
			t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
		}},
	} {
		for k, moment := range moments {
			if (i+k)%2 > 0 && os.Getenv(nccltest.EnvNightly) == "" {
				continue // each takes a long time, in which little happens
			}
			t.Run(c.name+" "+moment, func(t *testing.T) {
				t.Parallel()
				shared := filepath.Join(t.TempDir(), "meet")
				if err := os.Mkdir(shared, 0o700); err != nil {
					t.Fatal(err)
				}
				file, env := policyFile(t, 1)
				j := startJob(t, built, 4, args("ranks=4 comms=2 rate=500 haste=2"),
					append(env, "NCCL_TUNER_RENDEZVOUS="+shared, "NCCL_TUNER_STALL_LIMIT=8"))
				j.tell("go")
				waitCalls(0, 500, j.ranks...)
				write(t, file, policyText(2))
				by, p := j.proposedAfter(0, 0)
				if c.before != nil {
					c.before(t, shared)
				}
				at := p.check
				if k == 1 {
					at = p.swap
				}
				eventually(t, "the moment", func() bool { return by.count(0) >= at })
				c.vanish(t, shared)
				write(t, file, policyText(3))
				waitCalls(0, 5000, j.ranks...) // calls that fail count, too
				waitCalls(1, 0, j.ranks...)
				j.tell("stop")
				for context := range 2 {
					decided, failed := j.compareUntilFailure(context)
					t.Logf("communicator %d: %d calls decided by 4 ranks, %d ranks failed", context, decided, failed)
				}
			})
		}
	}
}

// compareUntilFailure compares what the ranks decided, each up to its first call that
// failed.
func (j *job) compareUntilFailure(context int) (decided, failed int) {
	j.Helper()
	var longest []call
	for _, r := range j.ranks {
		calls := r.calls(context, 0)
		if i := slices.IndexFunc(calls, func(c call) bool { return c.Result != 0 }); i >= 0 {
			calls, failed = calls[:i], failed+1
		}
		decided += len(calls)
		differ := 0
		for i := range min(len(calls), len(longest)) {
			if calls[i].outcome != longest[i].outcome {
				differ++
			}
		}
		if differ > 0 {
			j.Errorf("rank %d, context %d: %d calls differ", r.id, context, differ)
		}
		if len(calls) > len(longest) {
			longest = calls
		}
	}
	return decided, failed
}
