package sweep

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// What a run is taken to cost before any has told: starting so many ranks, then nccl-tests' iterations, in place and
// out of place, at a bandwidth that few clusters fall short of.
const (
	assumedStart     = 10 * time.Second
	assumedRank      = 5 * time.Millisecond // that its start takes longer by
	assumedIteration = 21 * 2
	assumedLatency   = 50 * time.Microsecond
	assumedBytes     = 10e9 // a second
)

// DryRun prints what would be run and about how long it takes, without a trace.
func DryRun(w io.Writer, o Options) error {
	o.Launcher = o.Launcher.Planned()
	s := &Sweep{Options: o, journal: &journal{subjects: map[fit.Key]*subject{}}}
	sizes := time.Duration(0)
	for _, b := range o.Sizes {
		sizes += assumedIteration * (assumedLatency + time.Duration(float64(b)/assumedBytes*float64(time.Second)))
	}
	var out strings.Builder
	var total time.Duration
	hours, starts := 0.0, 0
	fmt.Fprintf(&out,
		"# a run is taken to last %v for its start, %v more for each rank, and %v for %s; the sweep goes by what "+
			"runs last\n",
		assumedStart, assumedRank, sizes.Round(time.Second), plural.Of(len(o.Sizes), "size"))
	if o.Launcher.Submits() {
		fmt.Fprintf(&out,
			"# there is no allocation: the sweep asks Slurm for one, %s below, and gives it back at the end\n",
			launch.JobToCome)
	}
	tw := cli.NewTable(&out)
	tw.Row("#", "runs, about", "time", "GPU hours", "how")
	for _, key := range o.Keys {
		n, how := s.expected(key), "all that may be faster"
		if len(s.before(key)) > 0 {
			how = "the default and the three fastest of each size on fewer nodes"
		}
		took := time.Duration(n) * (assumedStart + time.Duration(key.Ranks)*assumedRank + sizes)
		gpu := took.Hours() * float64(key.Ranks)
		total, hours, starts = total+took, hours+gpu, starts+n
		tw.Row("# "+key.String(), n, minutes(took), fmt.Sprintf("%.1f", gpu), how)
	}
	if len(o.Keys) > 1 {
		tw.Row("# total", starts, minutes(total), fmt.Sprintf("%.1f", hours))
	}
	tw.Flush()
	if o.Budget > 0 && total > o.Budget {
		fmt.Fprintf(&out,
			"# that is more than the budget of %v: subjects are finished in this order, and what is not reached is "+
				"left to NCCL\n", o.Budget)
	}
	for _, key := range o.Keys {
		fmt.Fprintf(&out, "\n# %s\n", key.String())
		if len(s.before(key)) > 0 {
			out.WriteString("# its runs depend on what is fastest on fewer nodes\n")
		}
		space, err := o.Choices.Space(key, nil, "")
		if err != nil {
			return err
		}
		space.Sizes = o.Sizes
		for _, line := range perfrun.Unmet(space, nil) {
			fmt.Fprintf(&out, "# %s\n", line)
		}
		for _, r := range space.Next(nil).Runs {
			if err := s.print(&out, perfrun.Of(key, r)); err != nil {
				return err
			}
		}
		if len(s.before(key)) > 0 {
			continue
		}
		out.WriteString("# then, as an example of a configuration:\n")
		example := nccl.Config{Cell: space.Families[0], Channels: space.Channels[len(space.Channels)-1]}
		if err := s.print(&out, perfrun.Of(key, fit.RunOf(example, o.Sizes))); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (s *Sweep) print(out *strings.Builder, start perfrun.Start) error {
	for _, step := range perfrun.Steps(start.Sizes, perfrun.TrimUnit(start.Key)) {
		p, err := s.process(&start, step, Measure)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, cli.ShellWords(p.argv))
	}
	return nil
}
