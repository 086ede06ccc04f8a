package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/digest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Exit codes of diff, as diff(1) has them: 0 alike, and
const (
	exitDiffer     = 1
	exitNotCompare = 2
)

func diffCommand() *cobra.Command {
	var grid gridFlags
	var who pluginFlags
	var from costFlags
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
		Args: exactly(2, "the old and the new policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := diff([2]decider{{args[0], model}, {args[1], model}}, grid, who, from)
			if err != nil {
				return failure{exitNotCompare, err}
			}
			if model != "" {
				for _, note := range d.asked.notes {
					fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
				}
			}
			d.asked.note(cmd.ErrOrStderr(), d.shapes)
			if asJSON {
				err = d.writeJSON(cmd.OutOrStdout())
			} else {
				d.write(cmd.OutOrStdout())
			}
			if err == nil && len(d.differences) > 0 {
				return exitError(exitDiffer)
			}
			return err
		},
	}
	grid.register(cmd)
	cmd.Flags().StringVar(&model, "model", "", "cost model, as tunefit fit writes it, for what no row decides")
	who.register(cmd)
	from.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per range of sizes")
	return cmd
}

// comparison is what diff prints.
type comparison struct {
	by          [2]decider
	digests     [2]digest.Digest
	shapes      []shape
	differences []difference
	asked       *asker
}

// difference is a run of compared sizes on which both policies keep to one
// decision each, and not to the same.
type difference struct {
	before, after outcome // at the first of them
	last          uint64
}

func diff(by [2]decider, grid gridFlags, who pluginFlags, from costFlags) (*comparison, error) {
	colls, err := grid.parseColls()
	if err != nil {
		return nil, err
	}
	sizes, isRange, err := grid.parseSizes()
	if err != nil {
		return nil, err
	}
	files, err := by[0].read()
	if err != nil {
		return nil, err
	}
	newPolicy, err := readPolicy(by[1].policy)
	if err != nil {
		return nil, err
	}
	c := &comparison{by: by, digests: [2]digest.Digest{files.policies[0].Digest, newPolicy.Digest}}
	files.policies = append(files.policies, newPolicy)
	if c.shapes, err = grid.parseShapes(files.shapes()); err != nil {
		return nil, err
	}
	a, err := newAsker(who, from, files)
	if err != nil {
		return nil, err
	}
	defer a.close()
	c.asked = a
	for i := range c.shapes {
		c.shapes[i] = c.shapes[i].through(a.abi)
	}
	for _, coll := range colls {
		for _, s := range c.shapes {
			at := sizes
			if isRange {
				at = files.sizes(sizes, coll, s)
			}
			for _, call := range calls(files.rules(coll, s)) {
				if err := c.compare(a, coll, s, call, at); err != nil {
					return nil, err
				}
			}
		}
	}
	return c, nil
}

// compare adds the differences of one collective on one communicator.
func (c *comparison) compare(a *asker, coll nccl.Coll, s shape, call question, sizes []uint64) error {
	questions := make([]question, len(sizes))
	for i, bytes := range sizes {
		questions[i] = question{coll, s, bytes, call.pipeOps, call.regBuff}
	}
	var outcomes [2][]outcome
	for i, by := range c.by {
		var err error
		if outcomes[i], err = a.ask(by, s, questions); err != nil {
			return err
		}
	}
	var run *difference
	for i := range questions {
		before, after := outcomes[0][i], outcomes[1][i]
		switch {
		case before.alike(after):
			run = nil
		case run != nil && run.before.alike(before) && run.after.alike(after) && run.before.by.Row == before.by.Row && run.after.by.Row == after.by.Row:
			run.last = before.bytes
		default:
			c.differences = append(c.differences, difference{before, after, before.bytes})
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
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "collective\tcomm\tsize\told\tdecided by\tnew\tdecided by\n")
	for _, d := range c.differences {
		fmt.Fprintf(tw, "%s\t%s\t%s%s\t%s\t%s\t%s\t%s\n", d.before.coll, d.before.shape, sizeRange(d.before.bytes, d.last), d.before.callText(),
			d.before.choice(), d.before.decidedBy(c.by[0]), d.after.choice(), d.after.decidedBy(c.by[1]))
	}
	tw.Flush()
}

type differenceJSON struct {
	MinBytes uint64      `json:"min_bytes"`
	MaxBytes uint64      `json:"max_bytes"`
	Old      outcomeJSON `json:"old"`
	New      outcomeJSON `json:"new"`
}

func (c *comparison) writeJSON(w io.Writer) error {
	all := make([]differenceJSON, len(c.differences))
	for i, d := range c.differences {
		all[i] = differenceJSON{d.before.bytes, d.last, d.before.json(c.by[0]), d.after.json(c.by[1])}
	}
	return writeJSON(w, all)
}
