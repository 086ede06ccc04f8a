package sweep

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// What a run is taken to cost before any has told: starting so many ranks, then nccl-tests' iterations, in place and
// out of place, at a bandwidth that few clusters fall short of.
const (
	assumedStart     = 10 * time.Second
	assumedRank      = 5 * time.Millisecond // that its start takes longer by
	assumedIteration = 21                   // calls for one time
	assumedLatency   = 50 * time.Microsecond
	assumedBytes     = 10e9 // a second
)

// DryRun prints a shell script of what to run next: at the beginning, or after what was measured by hand. It leaves no
// trace. At the beginning it says about how long the sweep takes, too.
func DryRun(w io.Writer, o Options) (err error) {
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	s := newSweep(o, &journal{of: map[subjectKey][]*Run{}})
	var out, script strings.Builder
	if s.Single == "" { // the programs may be here, and tell what the preflight asks on the nodes
		argv, err := s.preflightCommand("")
		if err != nil {
			return err
		}
		text, _ := exec.Command(argv[0], argv[1:]...).Output() // what else it finds to be missing is not asked here
		s.takesCycles(string(text))
		o.Single = s.Single
	}
	if !s.Allocated() {
		fmt.Fprintf(&out, "# there is no allocation: salloc %s gets one, in which these commands run\n", o.Allocation())
	}
	if o.From == nil {
		if _, err := os.Stat(filepath.Join(o.Dir, journalFile)); err == nil {
			fmt.Fprintf(&out, "# %s holds a sweep, which the same command without --dry-run goes on with. This is how "+
				"a new one begins; --from %s shows what comes next\n", cli.ShellWord(o.Dir),
				cli.ShellWord(filepath.Join(o.Dir, "logs")))
		}
		s.estimate(&out)
	}
	fmt.Fprintf(&out, "# %s\n", o.processes())
	var unfinished []fit.Key
	for _, key := range o.Keys {
		next, err := s.next(key)
		if err != nil {
			return err
		}
		group, space, err := s.known(key)
		if err != nil {
			return err
		}
		measured, what := "nothing", "done"
		if group != nil {
			measured = "the default and " + wording.Plural(len(group.Configs()), "configuration")
		}
		n := len(next.Starts)
		passes := 0
		for _, start := range next.Starts {
			passes += len(start.Passes)
		}
		waits := n > 0 && slices.ContainsFunc(s.before(key), func(k fit.Key) bool {
			return slices.Contains(unfinished, k)
		})
		if n > 0 {
			what = fmt.Sprintf("next %s to %s", wording.Plural(n, "start"), next.Kind)
			if passes > n {
				what = fmt.Sprintf("next %s, which runs all sizes %s, to %s", wording.Plural(n, "start"),
					wording.Plural(passes, "time"), next.Kind)
			}
			unfinished = append(unfinished, key)
		}
		if waits {
			what, next.Starts = "what it runs depends on what is fastest on fewer nodes; for example", next.Starts[:1]
		}
		fmt.Fprintf(&script, "\n# %s: %s measured, %s\n", key, measured, what)
		for _, line := range perfrun.Unmet(space, group) {
			fmt.Fprintf(&script, "# %s\n", line)
		}
		commands, err := s.script(next)
		if err != nil {
			return err
		}
		if waits {
			commands = "# " + strings.ReplaceAll(strings.TrimSuffix(commands, "\n"), "\n", "\n# ") + "\n"
		}
		script.WriteString(commands)
	}
	logs := filepath.Join(o.Dir, "logs")
	if len(unfinished) > 0 {
		fmt.Fprintf(&out, "unset %s\nmkdir -p %s\n", strings.Join(decisive, " "),
			cli.ShellWords([]string{logs, filepath.Join(o.Dir, "policies")}))
		fmt.Fprintf(&script, "\n# then: the same command with --from %s\n", cli.ShellWord(logs))
	} else {
		script.WriteString("\n# nothing is left to run: tunefit fit makes a policy of all logs\n")
	}
	_, err = io.WriteString(w, out.String()+script.String())
	return err
}

// estimate says about how long a sweep takes.
func (s *Sweep) estimate(out *strings.Builder) {
	pass := s.assumedPass()
	fmt.Fprintf(out, "# a start is taken to last %v, %v more for each rank, and each pass over %s %v; the sweep goes "+
		"by what they last\n", assumedStart, assumedRank, wording.Plural(len(s.Sizes), "size"),
		pass.Round(time.Second/10))
	tw := cli.NewTable(out)
	tw.Row("#", "starts, about", "passes", "time", "GPU hours", "how")
	var total time.Duration
	all, hours := 0, 0.0
	for _, key := range s.Keys {
		how := "all that may be faster"
		if len(s.before(key)) > 0 {
			how = "the default, and the fastest of each size on fewer nodes, also with fewer channels"
		}
		starts, _ := s.expected(key)
		start, _ := s.costOf(key)
		took := time.Duration(starts) * start
		gpu := took.Hours() * float64(key.Ranks)
		total, hours, all = total+took, hours+gpu, all+starts
		tw.Row("# "+key.String(), starts, s.passesOf(starts), cli.Roughly(took), fmt.Sprintf("%.1f", gpu), how)
	}
	if n := len(s.Keys) * s.ofSettings(); n > 0 {
		start, _ := s.costOf(s.Keys[0])
		took := time.Duration(n) * start
		gpu := took.Hours() * float64(s.Keys[0].Ranks)
		total, hours, all = total+took, hours+gpu, all+n
		tw.Row("# "+wording.Plural(len(s.Settings), "setting")+" to try", n, s.passesOf(n), cli.Roughly(took),
			fmt.Sprintf("%.1f", gpu), "one start each; the best two, and the site's own, in turns (not printed here)")
	}
	if len(s.Keys) > 1 || len(s.Settings) > 0 {
		tw.Row("# total", all, s.passesOf(all), cli.Roughly(total), fmt.Sprintf("%.1f", hours))
	}
	tw.Flush()
	if s.Budget > 0 && total > s.Budget {
		fmt.Fprintf(out,
			"# that is more than the budget of %v: subjects are finished in this order, and what is not reached is "+
				"left to NCCL\n", s.Budget)
	}
}

// script returns the commands that run a batch.
func (s *Sweep) script(b Batch) (string, error) {
	var out strings.Builder
	for i := range b.Starts {
		r := Run{of: &b.Starts[i], kind: b.Kind}
		log := cli.ShellWord(filepath.Join(s.Dir, "logs", r.of.Name+".log"))
		for k, step := range r.of.Steps() {
			r.Sizes = step.Sizes(perfrun.TrimUnit(r.of.Key))
			argv, files, err := s.command(&r, step, false)
			if err != nil {
				return "", err
			}
			for _, name := range slices.Sorted(maps.Keys(files)) {
				lines := strings.Split(strings.TrimSuffix(string(files[name]), "\n"), "\n")
				fmt.Fprintf(&out, "printf '%%s\\n' %s > %s\n", cli.ShellWords(lines), cli.ShellWord(name))
			}
			if k == 0 {
				fmt.Fprintf(&out, "echo %s > %s\n", cli.ShellWord(r.mark()), log)
			}
			fmt.Fprintf(&out, "%s >> %s 2>&1\n", cli.ShellWords(argv), log)
		}
	}
	return out.String(), nil
}
