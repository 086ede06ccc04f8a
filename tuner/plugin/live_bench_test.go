//go:build cgo

package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// How long it takes from the save to the first call by the new version on the last of
// eight ranks, over 20 changes of 2 communicators.
func BenchmarkLiveSwitch(b *testing.B) {
	for _, rate := range []int{1000, 50} {
		b.Run(fmt.Sprintf("%d_calls_per_s", rate), func(b *testing.B) {
			for range b.N {
				file, env := policyFile(b, 1)
				j := startJob(b, built, 8, args("ranks=8 comms=2 rate=%d", rate), env)
				j.tell("go")
				waitCalls(0, 2*rate, j.ranks...) // until the rate is known
				var all []float64
				for v := 2; v <= 21; v++ {
					at := time.Now()
					write(b, file, policyText(v))
					var last time.Time
					for context := range 2 {
						j.decided(context, v)
						for _, r := range j.ranks {
							if t := r.first(context, v); t.After(last) {
								last = t
							}
						}
					}
					all = append(all, last.Sub(at).Seconds())
				}
				j.tell("stop")
				j.compare(0)
				j.compare(1)
				j.end()
				slices.Sort(all)
				b.ReportMetric(all[len(all)/2], "s-median")
				b.ReportMetric(all[len(all)-1], "s-worst")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// first is when the first call was decided by a version.
func (r *rank) first(context, version int) time.Time {
	calls := r.calls(context, 0)
	i := len(calls)
	for i > 0 && (calls[i-1].Coll == allReduce || calls[i-1].byPolicy() == version) {
		i--
	}
	return time.Unix(0, calls[min(i, len(calls)-1)].AtNanos)
}

// How long calls take while the file is saved ten times a second, beside the same
// without: rounds of both take turns in one run. A call that this thread had to wait in
// is told from one that only other processes have interrupted. Ranks that share cores
// wait for each other's threads; so there is a run with a core for each.
func BenchmarkLiveCalls(b *testing.B) {
	for _, ranks := range slices.Compact([]int{1, min(8, runtime.NumCPU()), 8}) {
		b.Run(fmt.Sprintf("%d_ranks", ranks), func(b *testing.B) {
			for range b.N {
				benchCalls(b, ranks)
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

func benchCalls(b *testing.B, ranks int) {
	const rounds, rate = 5, 1000
	file, env := policyFile(b, 1)
	j := startJob(b, built, ranks, args("ranks=%d rate=%d measure=1", ranks, rate), env)
	j.tell("go")
	waitCalls(0, rate, j.ranks...)
	var calls [2][]call // quiet, and while the file is edited
	version, changes := 1, 0
	for i := range 2 * rounds {
		from := make([]int, ranks)
		for r := range j.ranks {
			from[r] = j.ranks[r].count(0)
		}
		if edited := i%2 == 1; !edited {
			waitCalls(0, 4*rate, j.ranks[0])
		}
		for n := range i % 2 * 30 {
			version++
			write(b, file, policyText(version))
			waitCalls(0, rate/10, j.ranks[0])
			if n%10 == 9 { // let one through
				j.decided(0, version)
				changes++
			}
		}
		for r := range j.ranks {
			calls[i%2] = append(calls[i%2], j.ranks[r].calls(0, from[r])...)
		}
	}
	j.tell("stop")
	j.compare(0)
	j.end()
	b.Logf("quiet:  %s", latencies(calls[0]))
	b.Logf("edited: %s; %d saves, %d changes came into force", latencies(calls[1]), version-1, changes)
}

func latencies(calls []call) string {
	slow, waited := 0, 0
	nanos := make([]uint32, len(calls))
	for n, c := range calls {
		nanos[n] = c.Nanos
		if c.Nanos > 100_000 {
			slow++
			if c.waited() {
				waited++
			}
		}
	}
	slices.Sort(nanos)
	at := func(q float64) float64 { return float64(nanos[int(q*float64(len(nanos)-1))]) / 1000 }
	return fmt.Sprintf("%6d calls: median %.2f us, 99 %% %.2f, 99.9 %% %.1f, 99.99 %% %.0f, longest %.0f us; %d "+
		"beyond 100 us, %d of them waited",
		len(calls), at(0.5), at(0.99), at(0.999), at(0.9999), at(1), slow, waited)
}

// What eight processes with two communicators each cost while nothing happens, and
// what the same cost with NCCL_TUNER_RELOAD=new.
func BenchmarkLiveIdle(b *testing.B) {
	for _, reload := range []string{"new", "live"} {
		b.Run(reload, func(b *testing.B) {
			for range b.N {
				_, env := policyFile(b, 1)
				j := startJob(b, built, 8, args("ranks=8 comms=2"), append(env, "NCCL_TUNER_RELOAD="+reload))
				before := j.cpuTime()
				time.Sleep(10 * time.Second) // over which processor time is counted
				b.ReportMetric((j.cpuTime()-before).Seconds()*1000/10/8, "cpu-ms/s/process")
				b.ReportMetric(0, "ns/op")
				j.end()
			}
		})
	}
}

// cpuTime is that of all processes and of the kernel for them.
func (j *job) cpuTime() (sum time.Duration) {
	for _, r := range j.ranks {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", r.cmd.Process.Pid))
		if err != nil {
			j.Fatal(err)
		}
		for _, task := range tasks {
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", r.cmd.Process.Pid,
				task.Name())); err == nil {
				nanos, _ := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
				sum += time.Duration(nanos)
			}
		}
	}
	return sum
}

// What init costs: of the first communicator of a process and of later ones, whose
// rank is the second to join, as most are.
func BenchmarkLiveOpen(b *testing.B) {
	for _, reload := range []string{"new", "live"} {
		b.Run(reload, func(b *testing.B) {
			for range b.N {
				file, env := policyFile(b, 1)
				var text strings.Builder
				for i := range 10_000 {
					fmt.Fprintf(&text, "allreduce,%d,%d,ring,simple,%d,1,8,-1,-1\n", i*4096, i*4096+4095, 1+i%32)
				}
				write(b, file, []byte(text.String()))
				var first, later []float64
				j := newJob(b)
				env = append(env, "NCCL_TUNER_RELOAD="+reload)
				for i := range 2 {
					r := j.launch(built, i, args("ranks=8 comms=20"), env)
					opened := r.ready()
					if i == 0 {
						j.ranks = append(j.ranks, r)
						continue
					}
					first = append(first, opened[0].Seconds()*1000)
					for _, o := range opened[1:] {
						later = append(later, o.Seconds()*1e6)
					}
					j.ranks = append(j.ranks, r)
				}
				j.end()
				slices.Sort(later)
				b.ReportMetric(first[0], "ms-first")
				b.ReportMetric(later[len(later)/2], "us-later-median")
				b.ReportMetric(later[len(later)-1], "us-later-worst")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
