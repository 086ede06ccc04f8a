package command

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/compare"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// writeRestored writes the policy that asks for what ran before where that became slower.
func (f *compareFlags) writeRestored(notes io.Writer, t *compare.Table, m measured, named [2][]string) error {
	all := t.Restore(m.samples[1], m.failed[1])
	var rows []fit.Row
	var unproven []compare.Restoration
	refused := map[string][]string{}
	var reasons []string
	written := map[string]bool{}
	for i := range all {
		r := &all[i]
		place := fmt.Sprintf("%s %s %s", r.Coll, r.CommText(), nccl.FormatBytes(r.SizeResult.Bytes))
		switch {
		case r.Refused != "":
			if refused[r.Refused] == nil {
				reasons = append(reasons, r.Refused)
			}
			refused[r.Refused] = append(refused[r.Refused], place)
			continue
		case written[place]: // of another data type, which no tuner is told
			continue
		}
		written[place] = true
		if !r.Proven() {
			unproven = append(unproven, *r)
		}
		if n := len(rows); n > 0 && r.Same {
			rows[n-1].Bytes.Max, rows[n-1].Comments = r.SizeResult.Bytes, []string{why(all, i)}
			continue
		}
		row := fit.Row{Key: fit.Key{Coll: r.Coll, Comm: r.Comm}, Config: settable(r),
			Bytes: nccl.Range{Min: r.SizeResult.Bytes, Max: r.SizeResult.Bytes}, Comments: []string{why(all, i)}}
		if n := len(rows); n > 0 && r.Adjacent { // both sizes became slower, and so did what is between them
			last := &rows[n-1].Bytes
			last.Max = uint64(math.Sqrt(float64(last.Max) * float64(row.Bytes.Min)))
			row.Bytes.Min = last.Max + 1
		}
		rows = append(rows, row)
	}
	for _, reason := range reasons {
		fmt.Fprintf(notes, "not restored: %s: %s\n", cli.Few(refused[reason], 4, ", "), reason)
	}
	switch {
	case len(all) == 0:
		fmt.Fprintf(notes, "%s was not written: no size is significantly slower by more than --threshold %s\n",
			f.restore, f.threshold)
		return nil
	case len(rows) == 0:
		fmt.Fprintf(notes, "%s was not written: nothing of what became slower can be restored\n", f.restore)
		return nil
	}
	err := cli.WriteWhole(f.restore, f.force, func(w io.Writer) error {
		fmt.Fprintf(w, "# from tunefit compare: what ran before, where what runs now is slower by more than %s\n",
			f.threshold)
		if t.Simulated > 0 {
			fmt.Fprintln(w, "# "+nccl.Remark(nccl.RemarkSimulated, "", "its times are not measured"))
		}
		for _, d := range t.Differences {
			fmt.Fprintf(w, "# %s: %s -> %s\n", d.What, d.Before, d.After)
		}
		return fit.WriteRows(w, rows, nccl.AnyRelease)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(notes, "wrote %s, %s for %s\n", f.restore, wording.Plural(len(rows), "row"),
		wording.Plural(len(written), "size"))
	if len(unproven) > 0 {
		f.verify(notes, unproven)
	}
	return nil
}

// settable is the configuration with its channels as far as a tuner may name them.
func settable(r *compare.Restoration) nccl.Config {
	c := nccl.Config{Cell: r.Config.Cell}
	if nccl.ChannelsCanBeSet(r.Config.Algo, r.Nodes) {
		c.Channels = r.Config.Channels
	}
	return c
}

// why is the comment of the row that ends with the i-th restoration.
func why(all []compare.Restoration, i int) string {
	first := i
	for all[first].Same {
		first--
	}
	from, to := all[first].SizeResult.Ratio, all[first].SizeResult.Ratio
	gain := [2]float64{}
	var before, now []string
	for k, r := range all[first : i+1] {
		from, to = min(from, r.SizeResult.Ratio), max(to, r.SizeResult.Ratio)
		before, now = append(before, r.SizeResult.Before.Ran.Label()), append(now, r.SizeResult.After.Ran.Label())
		if r.Check != nil {
			if ratio := r.Check.Ratio; k == 0 {
				gain = [2]float64{ratio, ratio}
			} else {
				gain = [2]float64{min(gain[0], ratio), max(gain[1], ratio)}
			}
		}
	}
	text := fmt.Sprintf("%s: %s of the time since, %s ran before, %s now; ",
		cli.SizeRange(all[first].Bytes, all[i].Bytes), times(from, to), each(before), each(now))
	switch {
	case all[i].Proven():
		return text + fmt.Sprintf("measured now, the former takes %s of the latter's time", times(gain[0], gain[1]))
	case all[i].Check != nil:
		return text + fmt.Sprintf("not validated: one repetition says that the former takes %s of the latter's time "+
			"now", times(gain[0], gain[1]))
	}
	return text + "not validated: the former was not measured since"
}

// each joins configurations, those in a row that are alike once.
func each(configs []string) string { return strings.Join(slices.Compact(configs), ", ") }

func times(from, to float64) string {
	if a, b := fmt.Sprintf("%.3f", from), fmt.Sprintf("%.3f", to); a != b {
		return a + " to " + b
	}
	return fmt.Sprintf("%.3f", from)
}

// verify prints how to measure what nobody has.
func (f *compareFlags) verify(notes io.Writer, unproven []compare.Restoration) {
	fmt.Fprintf(notes, "%s of it not validated: nothing tells whether what ran before is faster now. Measure that "+
		"with the present NCCL before a job runs on it:\n", wording.Plural(len(unproven), "size"))
	var keys []fit.Key
	sizes := map[fit.Key][]uint64{}
	for _, r := range unproven {
		key := fit.Key{Coll: r.Coll, Comm: r.Comm}
		if sizes[key] == nil {
			keys = append(keys, key)
		}
		sizes[key] = append(sizes[key], r.SizeResult.Bytes)
	}
	library, err := new(cli.LibraryFlag).Find()
	if err != nil {
		library = cli.LibraryName // where NCCL looks for it
	}
	restored := "env " + cli.ShellAssignments(perfrun.Tuned(library, f.restore)) + " "
	fmt.Fprintln(notes, "  for rep in 1 2 3 4 5; do")
	for _, key := range keys {
		start, gpus := "", key.Ranks
		if key.Nodes > 1 {
			start, gpus = fmt.Sprintf("mpirun -np %d ", key.Ranks), 1
		}
		for _, run := range [][2]string{{"present", ""}, {"restored", restored}} {
			name := run[0] + "-$rep-" + perfrun.Name(key)
			fmt.Fprintf(notes, "    echo '# %s' > %s.log\n", name, name)
			for _, step := range perfrun.Steps(sizes[key], perfrun.TrimUnit(key)) {
				fmt.Fprintf(notes, "    %s%s%s %s -g %d >> %s.log 2>&1\n", start, run[1], perfrun.Program(key.Coll),
					strings.Join(step.Args(), " "), gpus, name)
			}
		}
	}
	fmt.Fprintln(notes, "  done")
	fmt.Fprintln(notes, "  tunefit compare --turns present-*.log -- restored-*.log")
}
