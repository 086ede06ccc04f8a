package command

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

func showCommand(env cli.Env) *cobra.Command {
	t := decisionTable{queryGrid: queryGrid{from: ask.Flags{Env: env}}}
	var call ask.Question
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [POLICY.csv]",
		Short: "Print what a policy and a model decide",
		Long: `Print what a policy, a cost model or both decide, for collectives, sizes and
communicators: NCCL's default, its choice with the policy, and the row or the model that
decides. A - means that a gain is not known. Without a number of channels (ch), it is NCCL's.

NCCL's default is the measured one, if the model has it. Otherwise NCCL's estimates tell
it, for the machine of --topo, else for the measured one if topology.xml is beside the
file. They are for all GPUs of a node, or those of --gpus. A model that names its machine
is used as on that machine, or without one as on this machine.

The library's own code decides. A job gets the same with the release of --nccl (default:
the one that the files were measured with). NCCL_* variables count as they do in NCCL.`,
		Example: `  tunefit show configs/policies/example.csv
  tunefit show configs/policies/example.csv --coll allreduce --comm 4x8 --sizes 1M-1G --json
  tunefit show configs/policies/example.csv --model model.json
  tunefit show configs/policies/example.csv --topo configs/topo/dgx-a100.xml`,
		Args: cli.Args(0, 1, "the policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				t.by.Policy = args[0]
			}
			if t.by == (ask.Decider{}) {
				return cli.Usagef("nothing to show (needed: a policy file, --model, or both)")
			}
			if err := t.show(call, !asJSON); err != nil {
				return err
			}
			t.note(cmd.ErrOrStderr())
			t.noteNotRaised(cmd.ErrOrStderr())
			return cli.Print(cmd.OutOrStdout(), asJSON, t.outcomes, t.write)
		},
	}
	t.grid.Register(cmd)
	cmd.Flags().StringVar(&t.by.Model, "model", "", "cost model, as tunefit fit writes it, for what no row decides")
	registerCall(cmd, &call)
	t.from.Register(cmd)
	t.from.RegisterCommName(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per collective, communicator and size")
	cli.Complete(cmd, "comm", func(args []string) []string {
		by := t.by
		if len(args) > 0 {
			by.Policy = args[0]
		}
		return commsOf(t.from, by)
	})
	return cmd
}

// decisionTable is what show prints.
type decisionTable struct {
	queryGrid
	by       ask.Decider
	outcomes []ask.Outcome
}

// show asks about what the flags name, for a table also where outcomes change. call has pipe_ops and reg_buff.
func (t *decisionTable) show(call ask.Question, table bool) error {
	if err := checkCall(call); err != nil {
		return err
	}
	if err := t.open(t.by); err != nil {
		return err
	}
	err := t.each(func(q ask.Question, sizes []uint64) error {
		q.PipeOps, q.RegBuff = call.PipeOps, call.RegBuff
		outcomes, err := t.asked.Ask(t.by, q, sizes...)
		if table && t.ranges && err == nil {
			outcomes, err = t.whole(q, outcomes)
		}
		t.outcomes = append(t.outcomes, outcomes...)
		return err
	})
	t.notes = t.asked.About(t.by, t.comms, slices.Contains(t.colls, nccl.CollAllGather))
	return err
}

// mostChanges bounds those that whole looks for between two samples: a condition may hold for every other size.
const mostChanges = 8

// whole adds the sizes on both sides of each change between two samples, so that lines of the table leave no holes.
func (t *decisionTable) whole(q ask.Question, sampled []ask.Outcome) (all []ask.Outcome, err error) {
	for i, next := range sampled {
		for n := 0; i > 0 && n < mostChanges; n++ {
			low, high := all[len(all)-1], next
			if oneLine(low, high) || high.Bytes-low.Bytes == 1 {
				break
			}
			for high.Bytes-low.Bytes > 1 {
				middle, err := t.asked.Ask(t.by, q, low.Bytes+(high.Bytes-low.Bytes)/2)
				if err != nil {
					return nil, err
				}
				if oneLine(all[len(all)-1], middle[0]) {
					low = middle[0]
				} else {
					high = middle[0]
				}
			}
			all = append(all, low, high)
		}
		all = append(all, next)
	}
	slices.SortFunc(all, func(a, b ask.Outcome) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return slices.CompactFunc(all, func(a, b ask.Outcome) bool { return a.Bytes == b.Bytes }), nil
}

// oneLine reports whether a line of the table holds both outcomes.
func oneLine(a, b ask.Outcome) bool {
	return a.Coll == b.Coll && a.Comm == b.Comm && a.NCCLCell() == b.NCCLCell() && a.Known == b.Known &&
		a.Choice() == b.Choice() && a.Row == b.Row && a.ByModel == b.ByModel
}

// write prints a table, runs of equal outcomes over sampled sizes as one line. With a model, it tells how NCCL's
// choice is known, and the expected gain.
func (t *decisionTable) write(w io.Writer) {
	tw := cli.NewTable(w)
	line := func(call []any, choice, known, policy, gain, by any) {
		cells := append(call, choice)
		if t.by.Model != "" {
			cells = append(cells, known, policy, gain, by)
		} else {
			cells = append(cells, policy, by)
		}
		tw.Row(cells...)
	}
	line([]any{"collective", "comm", "size"}, t.asked.Chooser(t.by, t.outcomes)+"'s choice", "known by",
		"with policy", "gain", "decided by")
	for i := 0; i < len(t.outcomes); {
		start := i
		first := t.outcomes[i]
		last := first
		for i++; i < len(t.outcomes) && t.ranges; i++ {
			if !oneLine(first, t.outcomes[i]) {
				break
			}
			last = t.outcomes[i]
		}
		line([]any{first.Coll, first.Comm, cli.SizeRange(first.Bytes, last.Bytes)}, first.NCCLCell(), first.Known,
			first.Choice(), gains(t.outcomes[start:i]), decidedBy(first))
	}
	tw.Flush()
}

// decidedBy leaves out the folder of a file that a table repeats on every line.
func decidedBy(o ask.Outcome) string {
	o.File = filepath.Base(o.File)
	return o.DecidedBy()
}

// noteNotRaised says where rows ask for more channels than NCCL takes.
func (t *decisionTable) noteNotRaised(w io.Writer) {
	all := slices.DeleteFunc(slices.Clone(t.outcomes), func(o ask.Outcome) bool { return o.NotRaised == 0 })
	if len(all) == 0 {
		return
	}
	o := all[0]
	fmt.Fprintf(w, "note: NCCL %s takes a tuner's channels only where they are fewer than its own: %s without effect, "+
		"as the %d of %s for %s of %s on %s\n", o.Release,
		wording.Plural(len(all), "count")+wording.Verb(len(all), " is", " are"),
		o.NotRaised, decidedBy(o), o.Coll, nccl.FormatBytes(o.Bytes), o.Comm)
}

// gains writes the expected gain at one size, or the range of gains at several.
func gains(of []ask.Outcome) string {
	least, most := math.Inf(1), math.Inf(-1)
	for _, o := range of {
		if c := o.Expected; c != nil {
			least, most = min(least, c.Gain), max(most, c.Gain)
		}
	}
	from, to := fmt.Sprintf("%.1f", 100*least), fmt.Sprintf("%.1f", 100*most)
	switch {
	case least > most:
		return "-"
	case from == to:
		return from + " %"
	}
	return fmt.Sprintf("%s - %s %%", from, to)
}

// queryGrid asks about collectives, communicators and sizes, as show and diff do. Use open, then each.
type queryGrid struct {
	grid  cli.CallFlags
	from  ask.Flags
	asked *ask.Asker

	colls  []nccl.Coll
	comms  []policy.Comm
	sizes  []uint64
	ranges bool     // the sizes are samples
	notes  []string // about the policies and models
}

// registerCall adds the flags for what else a call is than its collective and size.
func registerCall(cmd *cobra.Command, call *ask.Question) {
	cmd.Flags().IntVar(&call.PipeOps, "pipe-ops", 1, "ask as for a group of so many operations, NCCL's numPipeOps")
	cmd.Flags().IntVar(&call.RegBuff, "reg-buff", 0, "1: ask as for registered buffers")
}

// checkCall checks what they were set to.
func checkCall(call ask.Question) error {
	if call.PipeOps < 1 || call.RegBuff < 0 || call.RegBuff > 1 {
		return cli.Usagef("--pipe-ops %d --reg-buff %d (allowed: 1 or more; 0 or 1)", call.PipeOps, call.RegBuff)
	}
	return nil
}

// commsOf names the communicators that policies name and that models were measured on; none if a file cannot be read.
func commsOf(from ask.Flags, by ...ask.Decider) []string {
	asked, err := ask.NewAsker(from, by...)
	if err != nil {
		return nil
	}
	return cli.CommNames(asked.Files.Comms())
}

// open parses the flags and reads the files.
func (s *queryGrid) open(by ...ask.Decider) (err error) {
	if s.colls, err = s.grid.ParseColls(); err != nil {
		return err
	}
	if s.sizes, s.ranges, err = s.grid.ParseSizes(); err != nil {
		return err
	}
	if s.asked, err = ask.NewAsker(s.from, by...); err != nil {
		return err
	}
	named, err := s.grid.ParseComms(s.asked.Files.Comms())
	for _, c := range named {
		s.comms = append(s.comms, s.asked.Comm(c))
	}
	return err
}

// each visits every collective on every communicator, with the sizes to ask about.
func (s *queryGrid) each(visit func(q ask.Question, sizes []uint64) error) error {
	for _, coll := range s.colls {
		for _, comm := range s.comms {
			sizes := s.sizes
			if s.ranges {
				sizes = s.asked.Files.Sizes(sizes, coll, comm.Comm)
			}
			if err := visit(ask.Question{Call: nccl.Call{Coll: coll}, Comm: comm}, sizes); err != nil {
				return err
			}
		}
	}
	return nil
}

// note prints what a person should know about the answers.
func (s *queryGrid) note(w io.Writer) {
	cli.Notes(w, s.notes...)
	s.asked.Note(w, s.comms)
}
