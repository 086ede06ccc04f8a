package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/costs"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/grid"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/digest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Exit codes of diff, as diff(1) has them: 0 alike, and
const (
	exitDiffer     = 1
	exitNotCompare = 2
)

func diffCommand() *cobra.Command {
	var grid grid.Flags
	var who cli.LibraryFlag
	var from costs.Flags
	var model string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff OLD.csv NEW.csv",
		Short: "Print where two policies decide differently",
		Long: `Print where two policies decide differently: for the communicators, sizes, and
values of pipe_ops and reg_buff that a row of either file names. With --model, the
model decides beside both what no row decides, and what NCCL was measured to choose by
itself counts as that; elsewhere, and without, NCCL's cost model on the machine of --topo
or --tuning says it.

Exit code: 0 if they decide alike there, 1 if not, 2 if they cannot be compared.`,
		Example: `  tunefit diff configs/policies/example.csv configs/policies/headerless.csv
  tunefit diff configs/policies/example.csv configs/policies/headerless.csv --comm 2x8 --json`,
		Args: cli.Args(2, 2, "the old and the new policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := diff([2]ask.Decider{{Policy: args[0], Model: model}, {Policy: args[1], Model: model}}, grid, who, from)
			if err != nil {
				return cli.FailWith(exitNotCompare, err)
			}
			for _, note := range d.notes {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
			}
			d.asked.Note(cmd.ErrOrStderr(), d.shapes)
			if asJSON {
				err = d.writeJSON(cmd.OutOrStdout())
			} else {
				d.write(cmd.OutOrStdout())
			}
			if err == nil && len(d.differences) > 0 {
				return cli.ExitWith(exitDiffer)
			}
			return err
		},
	}
	grid.Register(cmd)
	cmd.Flags().StringVar(&model, "model", "", "cost model, as tunefit fit writes it, for what no row decides")
	who.Register(cmd, "to ask")
	from.Register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per range of sizes")
	return cmd
}

// comparison is what diff prints.
type comparison struct {
	by          [2]ask.Decider
	digests     [2]digest.Digest
	shapes      []grid.Shape
	differences []difference
	asked       *ask.Asker
	notes       []string
}

// difference is a run of compared sizes on which both policies keep to one
// decision each, and not to the same.
type difference struct {
	before, after ask.Outcome // at the first of them
	last          uint64
}

func diff(by [2]ask.Decider, grid grid.Flags, who cli.LibraryFlag, from costs.Flags) (*comparison, error) {
	colls, err := grid.ParseColls()
	if err != nil {
		return nil, err
	}
	sizes, isRange, err := grid.ParseSizes()
	if err != nil {
		return nil, err
	}
	files, err := by[0].Read()
	if err != nil {
		return nil, err
	}
	newPolicy, err := ask.ReadPolicy(by[1].Policy)
	if err != nil {
		return nil, err
	}
	c := &comparison{by: by, digests: [2]digest.Digest{files.Policies[0].Digest, newPolicy.Digest}}
	files.Policies = append(files.Policies, newPolicy)
	if c.shapes, err = grid.ParseShapes(files.Shapes()); err != nil {
		return nil, err
	}
	a, err := ask.NewAsker(who, from, by[:]...)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	c.asked = a
	for i := range c.shapes {
		c.shapes[i] = c.shapes[i].Through(a.ABI)
	}
	for _, coll := range colls {
		for _, s := range c.shapes {
			at := sizes
			if isRange {
				at = files.Sizes(sizes, coll, s)
			}
			for _, call := range ask.Calls(files.Rules(coll, s)) {
				if err := c.compare(a, coll, s, call, at); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, d := range by {
		c.notes = append(c.notes, a.About(d, c.shapes, false)...)
	}
	slices.Sort(c.notes)
	c.notes = slices.Compact(c.notes)
	return c, nil
}

// compare adds the differences of one collective on one communicator.
func (c *comparison) compare(a *ask.Asker, coll nccl.Coll, s grid.Shape, call ask.Question, sizes []uint64) error {
	call.Coll, call.Shape = coll, s
	var outcomes [2][]ask.Outcome
	for i, by := range c.by {
		var err error
		if outcomes[i], err = a.Ask(by, s, call.At(sizes)); err != nil {
			return err
		}
	}
	var run *difference
	for i := range sizes {
		before, after := outcomes[0][i], outcomes[1][i]
		switch {
		case before.Alike(after):
			run = nil
		case run != nil && run.before.Alike(before) && run.after.Alike(after) && run.before.Row == before.Row && run.after.Row == after.Row:
			run.last = before.Bytes
		default:
			c.differences = append(c.differences, difference{before, after, before.Bytes})
			run = &c.differences[len(c.differences)-1]
		}
	}
	return nil
}

func (c *comparison) write(w io.Writer) {
	if len(c.differences) == 0 {
		fmt.Fprintln(w, "no difference")
		if c.digests[0] != c.digests[1] {
			fmt.Fprintf(w, "where they were compared: their rows do not mean the same (versions %s and %s)\n", c.digests[0], c.digests[1])
		}
		return
	}
	tw := cli.Table(w)
	fmt.Fprintf(tw, "collective\tcomm\tsize\told\tdecided by\tnew\tdecided by\n")
	for _, d := range c.differences {
		fmt.Fprintf(tw, "%s\t%s\t%s%s\t%s\t%s\t%s\t%s\n", d.before.Coll, d.before.Shape, grid.SizeRange(d.before.Bytes, d.last), d.before.CallText(),
			d.before.Choice(), d.before.DecidedBy(c.by[0]), d.after.Choice(), d.after.DecidedBy(c.by[1]))
	}
	tw.Flush()
}

type differenceJSON struct {
	MinBytes uint64          `json:"min_bytes"`
	MaxBytes uint64          `json:"max_bytes"`
	Old      ask.OutcomeJSON `json:"old"`
	New      ask.OutcomeJSON `json:"new"`
}

func (c *comparison) writeJSON(w io.Writer) error {
	all := make([]differenceJSON, len(c.differences))
	for i, d := range c.differences {
		all[i] = differenceJSON{d.before.Bytes, d.last, d.before.JSON(c.by[0]), d.after.JSON(c.by[1])}
	}
	return cli.WriteJSON(w, all)
}
