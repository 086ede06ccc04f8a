package sweep_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/sweep"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// mostRuns is more than a sweep of two numbers of channels can need, in which each start is one run.
const mostRuns = 60

// A sweep of each collective ends with each release of NCCL, on one node and on two.
// Some releases leave channels to NCCL, others do not have all algorithms.
func TestSweepEnds(t *testing.T) {
	perf := testlib.FakePerf(t)
	t.Setenv("PATH", playedPath(t))
	for _, release := range nccl.KnownVersions {
		for coll := range nccl.Coll(nccl.NumColls) {
			for _, how := range []struct {
				name, with string
				nodes      int
			}{{"one node", launch.Local, 1}, {"two nodes", playedRanks, 2}} {
				if testing.Short() && (coll != nccl.CollAllGather && coll != nccl.CollBroadcast || how.nodes > 1 ||
					release != nccl.Reference) {
					continue
				}
				t.Run(fmt.Sprintf("%s %s %s", release, coll, how.name), func(t *testing.T) {
					t.Parallel()
					// What {env} would pass on, each process is started with: the release is not the whole test's.
					with := strings.Replace(how.with, "{command}", "env FAKEPERF_NCCL="+release.String()+" {command}", 1)
					o := launch.Options{With: with}
					if how.with == launch.Local {
						o.Prefix = []string{"env", "FAKEPERF_NCCL=" + release.String()}
					}
					launcher, err := launch.New(o)
					if err != nil {
						t.Fatal(err)
					}
					choices := &perfrun.Choices{Algos: []string{"ring", "tree", "nvls", "nvls_tree"},
						Protos: []string{"ll", "simple"}, Channels: []int{4, 32}}
					if err := choices.Check(); err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					runs, now := 0, cli.Step{}
					s, err := sweep.Open(sweep.Options{
						Dir:   t.TempDir(),
						Keys:  []fit.Key{{Coll: coll, Comm: nccl.Comm{Nodes: how.nodes, Ranks: 8 * how.nodes}}},
						Sizes: []uint64{64 << 10, 1 << 20, 16 << 20}, Choices: choices,
						Repetitions: 1, Launcher: launcher, Programs: perf, Library: testlib.Library,
						Silence: time.Hour,
						Now:     func(step cli.Step) { now = step },
						Say: func(format string, args ...any) {
							if runs++; runs > mostRuns {
								cancel(fmt.Errorf("more than %d runs, the last: "+format,
									append([]any{mostRuns}, args...)...))
							}
						},
					})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					if err := s.Run(ctx); err != nil {
						t.Fatal(err)
					}
					if !regexp.MustCompile(`^`+coll.String()+`-\dn-\d+r-start\d\d$`).MatchString(now.Now) ||
						now.Unit != "passes" || now.Of <= now.Done {
						t.Errorf("at last it said %+v", now)
					}
					if samples, _ := s.Samples(); len(samples) == 0 || len(s.NotMeasured()) > 0 {
						t.Errorf("%d measurements, not measured: %v", len(samples), s.NotMeasured())
					}
				})
			}
		}
	}
}

// How ranks are started does not change what is planned: what NCCL leaves to itself ends a sweep through each
// launcher, is said once, and a dry run knows it from the sweep and from the logs.
func TestSweepSaysWhatNCCLDoesNotUse(t *testing.T) {
	const said = "NCCL does not use 4 channels for ring/ll, ring/simple: it keeps its own number there"
	for name, prepare := range map[string]func(t *testing.T) []string{
		launch.Local: func(*testing.T) []string { return []string{"--comm", "1x8"} },
		"template":   func(*testing.T) []string { return []string{"--comm", "2x8", "--launch", playedRanks} },
		launch.MPIRun: func(t *testing.T) []string {
			return []string{"--comm", "2x8", "--launch", "mpirun", "--hosts", "node1,node2", "--launch-args",
				strings.Join(testlib.OpenMPI(t), " ")}
		},
		launch.Slurm: func(t *testing.T) []string {
			testlib.Slurm(t, 3).Allocate(t, "-N", "2", "--gpus-per-node=8", "--exclusive")
			return []string{"--comm", "2x8", "--launch", "slurm"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(prepare(t), "--coll", "allgather", "--sizes", "64K-1M", "--algos", "ring", "--protos",
				"ll,simple", "--channels", "4,32", "--budget", "2m")
			c := newCluster(t)
			c.env = []string{"FAKEPERF_NCCL=2.30.7"} // the real grid has no allgather
			_, errs := c.done(args...)
			n := len(c.runs())
			if n > 3 {
				t.Errorf("%d runs\n%s", n, errs)
			}
			if last := fmt.Sprintf("\n%4d of ~%-3d ", n, n); !strings.Contains(errs, "\n   1 of ~") ||
				!strings.Contains(errs, last) {
				t.Errorf("it does not say %q:\n%s", last, errs)
			}
			if n := strings.Count(errs, said); n != 1 {
				t.Errorf("it says %d times %q\n%s", n, said, errs)
			}
			imported := filepath.Join(t.TempDir(), "imported.csv")
			tunefit(t, cli.ExitOK, "import", filepath.Join(c.dir, "logs"), "-o", imported)
			for _, file := range []string{filepath.Join(c.dir, "sweep.csv"), imported} {
				out, _ := nextRuns(t, cli.ExitOK, "--algos", "ring", "--protos", "ll,simple", "--channels", "4,32",
					"--from", file)
				if !strings.Contains(out, " measured, done\n") || file != imported && strings.Count(out, "# "+said+"\n") != 1 {
					t.Errorf("%s:\n%s", file, out)
				}
			}
		})
	}
}
