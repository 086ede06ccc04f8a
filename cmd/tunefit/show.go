package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

func showCommand() *cobra.Command {
	var grid gridFlags
	var who pluginFlags
	var from costFlags
	var call question
	var model string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [POLICY.csv]",
		Short: "Print what a policy and a model decide",
		Long: `Print what a policy, a cost model or both decide, for collectives, sizes and
communicators: what NCCL would choose by itself, what it chooses with the policy,
and the row or the model that says so. A - means that it is left to NCCL. With a model,
the gain is the share of the time of NCCL's own choice that the model expects to be
saved; - where it does not know.

What NCCL would choose by itself is what it was measured to choose, as the model says, for
one call at a time from buffers that are not registered. Where that was not measured, and
without a model, the cost model of the release of --nccl says it, with the latencies and
bandwidths of --tuning, or those that follow from the topology of --topo.

A model that names the machine it was measured on is used as on the machine of
--topo, else as on this one. If it replaces constants of NCCL's, what NCCL chooses
with these is "with policy"; they do not change the numbers of --tuning.

The tuner library is loaded and asked through NCCL's plugin ABI, so this is what
a job gets with the release of --nccl: by its version of the tuner ABI, with what that
lacks. NCCL_* variables count as they do in NCCL.`,
		Example: `  tunefit show configs/policies/example.csv
  tunefit show configs/policies/example.csv --coll allreduce --comm 4x8 --sizes 1M-1G --json
  tunefit show configs/policies/example.csv --model model.json
  tunefit show configs/policies/example.csv --topo configs/topo/dgx-a100.xml`,
		Args: atMost(1, "the policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := decider{model: model}
			if len(args) > 0 {
				d.policy = args[0]
			}
			if d == (decider{}) {
				return usagef("nothing to show (needed: a policy file, --model, or both)")
			}
			t, err := show(d, grid, call, who, from)
			if err != nil {
				return err
			}
			for _, note := range t.notes {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
			}
			t.asked.note(cmd.ErrOrStderr(), t.shapes)
			t.noteNotRaised(cmd.ErrOrStderr())
			if asJSON {
				return t.writeJSON(cmd.OutOrStdout())
			}
			t.write(cmd.OutOrStdout())
			return nil
		},
	}
	grid.register(cmd)
	cmd.Flags().StringVar(&model, "model", "", "cost model, as tunefit fit writes it, for what no row decides")
	cmd.Flags().IntVar(&call.pipeOps, "pipe-ops", 1, "ask as for a group of so many operations, NCCL's numPipeOps")
	cmd.Flags().IntVar(&call.regBuff, "reg-buff", 0, "1: ask as for registered buffers")
	who.register(cmd)
	from.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per collective, communicator and size")
	return cmd
}

// decisionTable is what show prints.
type decisionTable struct {
	by       decider
	shapes   []shape
	outcomes []outcome
	expected []*model.Choice // of each outcome, by the model; nil: not known
	ranges   bool            // the sizes are samples: runs of equal outcomes are shown as one
	asked    *asker
	notes    []string // why a model is not used
}

func show(d decider, grid gridFlags, call question, who pluginFlags, from costFlags) (*decisionTable, error) {
	colls, err := grid.parseColls()
	if err != nil {
		return nil, err
	}
	samples, isRange, err := grid.parseSizes()
	if err != nil {
		return nil, err
	}
	f, err := d.read()
	if err != nil {
		return nil, err
	}
	t := &decisionTable{by: d, ranges: isRange}
	if t.shapes, err = grid.parseShapes(f.shapes()); err != nil {
		return nil, err
	}
	a, err := newAsker(who, from, f)
	if err != nil {
		return nil, err
	}
	defer a.close()
	t.asked = a
	for i := range t.shapes {
		t.shapes[i] = t.shapes[i].through(a.abi)
	}
	for _, coll := range colls {
		for _, s := range t.shapes {
			sizes := samples
			if isRange {
				sizes = f.sizes(samples, coll, s)
			}
			var questions []question
			for _, bytes := range sizes {
				questions = append(questions, question{coll, s, bytes, call.pipeOps, call.regBuff})
			}
			outcomes, err := a.ask(d, s, questions)
			if err != nil {
				return nil, err
			}
			t.outcomes = append(t.outcomes, outcomes...)
			view := a.engine.For(s.comm(a.costs.nccl))
			for _, o := range outcomes {
				t.expected = append(t.expected, o.expected(view))
			}
		}
	}
	if d.model != "" {
		t.notes = a.notes
	}
	if slices.Contains(colls, nccl.CollAllGather) {
		for _, s := range t.shapes {
			for _, note := range d.uncheckedNotes(a.engine.For(s.comm(a.costs.nccl)), a.costs.nccl) {
				if !slices.Contains(t.notes, note) {
					t.notes = append(t.notes, note)
				}
			}
		}
	}
	return t, nil
}

// write prints a table. With a model, it tells how NCCL's own choice is known, and the
// expected gain. The chunk size is there where a row asks for one.
func (t *decisionTable) write(w io.Writer) {
	chunks := slices.ContainsFunc(t.outcomes, func(o outcome) bool { return o.chunk > 0 })
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(known, chunk, gain string, cells ...string) {
		if t.by.model != "" {
			cells = slices.Insert(cells, 4, known)
		}
		last := len(cells) - 1
		if chunks {
			cells = slices.Insert(cells, last, chunk)
			last++
		}
		if t.by.model != "" {
			cells = slices.Insert(cells, last, gain)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	line("known by", "chunk", "gain", "collective", "comm", "size", fmt.Sprintf("NCCL %s alone", t.asked.costs.nccl), "with policy", "channels", "decided by")
	for i := 0; i < len(t.outcomes); {
		start := i
		first := t.outcomes[i]
		last := first
		for i++; i < len(t.outcomes) && t.ranges; i++ {
			o := t.outcomes[i]
			if o.coll != first.coll || o.shape != first.shape || o.nccl != first.nccl || o.known != first.known || o.own != first.own || !o.alike(first) || o.by.Row != first.by.Row || o.by.Model != first.by.Model {
				break
			}
			last = o
		}
		line(first.known.String(), orNCCL(first.chunk, nccl.FormatBytes(uint64(first.chunk))), gains(t.expected[start:i]),
			first.coll.String(), first.shape.String(), sizeRange(first.bytes, last.bytes), first.nccl.String(), first.policy.String(),
			orNCCL(int64(first.channels), strconv.Itoa(first.channels)), first.decidedBy(t.by.base()))
	}
	tw.Flush()
}

// noteNotRaised says where rows ask for more channels than NCCL takes.
func (t *decisionTable) noteNotRaised(w io.Writer) {
	for i, o := range t.outcomes {
		if o.notRaised > 0 {
			n := len(slices.DeleteFunc(slices.Clone(t.outcomes[i:]), func(o outcome) bool { return o.notRaised == 0 }))
			fmt.Fprintf(w, "note: NCCL %s takes a tuner's channels only where they are fewer than its own: %s without effect, as the %d of %s for %s of %s on %s\n",
				t.asked.costs.nccl, countOf(n, "count")+map[bool]string{true: " is", false: " are"}[n == 1], o.notRaised, o.decidedBy(t.by.base()), o.coll, nccl.FormatBytes(o.bytes), o.shape)
			return
		}
	}
}

// base leaves folders out of names that a table repeats on every line.
func (d decider) base() decider {
	for _, name := range []*string{&d.policy, &d.model} {
		if *name != "" {
			*name = filepath.Base(*name)
		}
	}
	return d
}

// expected is what the model expects of the outcome, nil where it does not know or
// where all is left to NCCL.
func (o outcome) expected(view *policy.EngineView) *model.Choice {
	d := policy.Decision{Algo: o.policy.algo, Proto: o.policy.proto, Write: o.policy != o.own, Channels: o.channels}
	if choice, ok := view.Expect(o.question.query(o.table, o.abi), d); ok {
		return &choice
	}
	return nil
}

// gains writes the expected gain of one size, or the least and the most of several.
func gains(of []*model.Choice) string {
	least, most := math.Inf(1), math.Inf(-1)
	for _, c := range of {
		if c != nil {
			least, most = min(least, c.Gain()), max(most, c.Gain())
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

func sizeRange(first, last uint64) string {
	if first == last {
		return nccl.FormatBytes(first)
	}
	return nccl.FormatBytes(first) + " - " + nccl.FormatBytes(last)
}

// orNCCL writes - for what the policy leaves to NCCL.
func orNCCL(n int64, text string) string {
	if n == 0 {
		return "-"
	}
	return text
}
