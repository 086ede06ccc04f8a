//go:build cgo

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// Two jobs, one that meets in /dev/shm and one in a directory, are held for SOAKTIME, up to twice as long until
// SOAK_COMMS communicators have come and gone in each. Files are edited, broken and removed, ranks stand still and
// fork, and the store gets full. Other jobs on the machine go through the faults of the other tests meanwhile. Nothing
// that a process holds, and nothing in the place where ranks meet, may grow; and no call is decided unlike.
func TestSoak(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("SOAKTIME"))
	if err != nil {
		t.Skip("SKIPPED: for make soak, which says how long in SOAKTIME")
	}
	comms, _ := strconv.Atoi(cmp.Or(os.Getenv("SOAK_COMMS"), "100000"))
	faults := []struct {
		name string
		play func(*testing.T)
	}{{"kill", TestLiveKill}, {"aggregator killed", TestLiveMachines}, {"edits", TestLiveEdits}, {"abort", TestLiveAbort},
		{"full at start", TestLiveFullAtStart}, {"forbidden", TestLiveForbidden}, {"vanish", TestLiveVanish},
		{"fork", TestLiveFork}, {"killed as a whole", TestLiveSweep}}
	jobs := []*soaked{soak(t, "/dev/shm", lasts), soak(t, "shared", lasts, "NCCL_TUNER_RENDEZVOUS=/dev/shm",
		"NCCL_TUNER_RENDEZVOUS_TRUST=1")}
	const most = 1000 // communicators between two looks
	end := time.Now().Add(lasts)
	for round := 0; time.Now().Before(end) || jobs[1].churned < comms && time.Now().Before(end.Add(lasts)); round++ {
		for _, j := range jobs {
			j.disturb()
			j.churn(min(most, max(1, comms-j.churned)))
			j.look()
			if round%10 == 0 {
				t.Logf("%s: after %d communicators %v", j.name, j.churned, j.now())
			}
		}
		if round%4 == 0 && time.Now().Before(end) {
			f := faults[round/4%len(faults)]
			t.Run(fmt.Sprint(f.name, " ", round), func(t *testing.T) { t.Run("", f.play) })
		}
	}
	for _, j := range jobs {
		j.files.mend()
		calls := 0
		for context := range soakComms * soakContexts {
			j.decided(context, j.files.versions[len(j.files.versions)-1])
			j.tell(fmt.Sprint("close ", context))
		}
		for comm := range soakComms {
			calls += 8 * len(j.compare(comm*soakContexts, comm*soakContexts+1))
		}
		j.end()
		t.Logf("%s: %d communicators came and went, %d saves; %d calls decided, none unlike without an error above\n%s",
			j.name, j.churned, len(j.files.versions)+len(j.files.models), calls, j.table())
	}
}

const (
	soakComms    = 2 // of each process, for the whole time
	soakContexts = 2 // ranks of each in a process
)

// soaked is one of the jobs, and what was seen of it.
type soaked struct {
	*job
	name    string
	place   string // where its ranks meet, as this process sees it
	files   editedFiles
	churned int
	seen    [len(held)][]float64
}

// held is what is looked at. The largest of all processes counts. It grows if its median over the last fifth of the
// looks is above that over the middle fifth by more than is allowed.
var held = [...]struct {
	what    string
	allowed float64
}{{"memory, KiB (RssAnon)", 1024}, {"descriptors", 0}, {"threads", 2}, {"other files where ranks meet", 16},
	{"files of ended communicators beyond one each", 0}, {"files of versions that communicators began with, for each look", 0.5}}

// soak starts a job of four processes, each with two ranks of each communicator.
func soak(t *testing.T, name string, lasts time.Duration, env ...string) *soaked {
	inside, place := smallShm(t)
	dir := t.TempDir()
	j := &soaked{name: name, place: place, files: editedFiles{TB: t, dice: rand.New(rand.NewPCG(1, rand.Uint64())),
		policy: filepath.Join(dir, "policy.csv"), model: filepath.Join(dir, "model.json")}}
	j.files.mend()
	rate := max(1, min(200, int(callRoom*2/3/(2*lasts+5*time.Minute).Seconds())))
	j.job = startJob(t, inside, 4, args("ranks=8 contexts=%d comms=%d rate=%d haste=2", soakContexts, soakComms, rate),
		append(env, "NCCL_TUNER_CONFIG_FILE="+j.files.policy, "NCCL_TUNER_MODEL_FILE="+j.files.model))
	for context := range soakComms * soakContexts {
		j.tell(fmt.Sprint("aside ", context)) // the main thread is for the communicators that come and go
	}
	return j
}

// disturb does one of the things that happen to jobs.
func (j *soaked) disturb() {
	r := j.ranks[j.files.dice.IntN(len(j.ranks))]
	switch j.files.dice.IntN(8) {
	case 0:
		filler := filepath.Join(j.place, "filler")
		fill(j.TB, filler)
		j.files.savePolicy(write)
		waitCalls(0, 20, r)
		if err := os.Remove(filler); err != nil {
			j.Fatal(err)
		}
	case 1:
		j.files.savePolicy(write)
		r.cmd.Process.Signal(syscall.SIGSTOP)
		waitCalls(0, 10, j.ranks[(r.id+1)%len(j.ranks)])
		r.cmd.Process.Signal(syscall.SIGCONT)
	case 2:
		var child int
		fmt.Sscanf(r.tell("fork"), "forked %d", &child)
		j.files.edit()
		if got := r.tell(fmt.Sprint("reap ", child)); got != "exit status 0" {
			j.Errorf("a forked child ends with: %s", got)
		}
	case 3:
		j.files.mend()
		j.decided(j.files.dice.IntN(soakComms)*soakContexts, j.files.versions[len(j.files.versions)-1])
	default:
		j.files.edit()
	}
}

// churn opens and ends communicators on all ranks, whatever the files are.
func (j *soaked) churn(count int) {
	j.tell(fmt.Sprintf("churn %d %d", j.churned, count))
	j.churned += count
}

// look notes what the job holds.
func (j *soaked) look() {
	var now [len(held)]float64
	for _, r := range j.ranks {
		proc := fmt.Sprintf("/proc/%d/", r.cmd.Process.Pid)
		status, err := os.ReadFile(proc + "status")
		if err != nil {
			j.Fatal(err)
		}
		field := func(name string) (n float64) {
			_, rest, _ := strings.Cut(string(status), name)
			fmt.Sscan(rest, &n)
			return n
		}
		open, _ := os.ReadDir(proc + "fd")
		now[0], now[1] = max(now[0], field("\nRssAnon:")), max(now[1], float64(len(open)))
		now[2] = max(now[2], field("\nThreads:"))
	}
	of := map[string]float64{} // files by folder
	filepath.WalkDir(j.place, func(path string, _ os.DirEntry, _ error) error {
		now[3]++
		of[filepath.Base(filepath.Dir(path))]++
		return nil
	})
	now[3] -= of["ended"] + of["blob"]
	now[4] = of["ended"] - float64(j.churned)
	now[5] = of["blob"] / float64(1+len(j.seen[5])) // something is edited before each look
	for i, n := range now {
		j.seen[i] = append(j.seen[i], n)
	}
}

// now is what the latest look has found.
func (j *soaked) now() (latest []float64) {
	for _, seen := range j.seen {
		latest = append(latest, seen[len(seen)-1])
	}
	return latest
}

// table says what the job held at the start, in the middle and at the end, and fails where that grows.
func (j *soaked) table() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "held\tstart\tmiddle\tend\tslope in 1000 communicators\t\t")
	for i, h := range held {
		n := len(j.seen[i])
		fifth := max(1, n/5)
		median := func(from int) float64 {
			some := slices.Sorted(slices.Values(j.seen[i][from : from+fifth]))
			return some[len(some)/2]
		}
		start, middle, end := median(0), median((n-fifth)/2), median(n-fifth)
		verdict := "flat"
		if end-middle > h.allowed {
			verdict = "GROWS"
			j.Errorf("%s: %s grows: %g in the middle, %g at the end", j.name, h.what, middle, end)
		}
		slope := (end - middle) / (float64(j.churned) / 1000 * float64(n-fifth-(n-fifth)/2) / float64(n))
		fmt.Fprintf(w, "%s\t%.4g\t%.4g\t%.4g\t%+.3f\t%s\t\n", h.what, start, middle, end, slope, verdict)
	}
	w.Flush()
	return out.String()
}
