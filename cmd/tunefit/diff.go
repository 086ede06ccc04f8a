package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff OLD.csv NEW.csv",
		Short: "Print where two policies decide differently",
		Long: `Print where two policies decide differently: for the communicators, sizes, and
values of pipe_ops and reg_buff that a row of either file names, with the
algorithms that NCCL offers on the machine of --tuning.

Exit code: 0 if they decide alike there, 1 if not, 2 if they cannot be compared.`,
		Example: `  tunefit diff configs/policies/example.csv configs/policies/headerless.csv
  tunefit diff configs/policies/example.csv configs/policies/headerless.csv --comm 2x8 --json`,
		Args: exactly(2, "the old and the new policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := diff(args[0], args[1], grid, who, from)
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "tunefit: %v\n", err)
				return exitError(exitNotCompare)
			}
			d.costs.noteStandIns(cmd.ErrOrStderr(), d.shapes)
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
	who.register(cmd)
	from.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per range of sizes")
	return cmd
}

// comparison is what diff prints.
type comparison struct {
	files       [2]string
	digests     [2]policy.Digest
	shapes      []shape
	differences []difference
	costs       *costModel
}

// difference is a run of compared sizes on which both policies keep to one
// decision each, and not to the same.
type difference struct {
	before, after outcome // at the first of them
	last          uint64
}

func diff(oldFile, newFile string, grid gridFlags, who pluginFlags, from costFlags) (*comparison, error) {
	colls, err := grid.parseColls()
	if err != nil {
		return nil, err
	}
	sizes, isRange, err := grid.parseSizes()
	if err != nil {
		return nil, err
	}
	oldPolicy, err := readPolicy(oldFile)
	if err != nil {
		return nil, err
	}
	newPolicy, err := readPolicy(newFile)
	if err != nil {
		return nil, err
	}
	c := &comparison{files: [2]string{oldFile, newFile}, digests: [2]policy.Digest{oldPolicy.Digest, newPolicy.Digest}}
	if c.shapes, err = grid.parseShapes(namedShapes([]*policy.Policy{oldPolicy, newPolicy}, nil)); err != nil {
		return nil, err
	}
	a, err := newAsker(who, from)
	if err != nil {
		return nil, err
	}
	defer a.close()
	c.costs = a.costs
	for i := range c.shapes {
		c.shapes[i] = c.shapes[i].through(a.abi)
	}
	for _, coll := range colls {
		for _, s := range c.shapes {
			rules := append(rulesFor(oldPolicy, coll, s), rulesFor(newPolicy, coll, s)...)
			at := sizes
			if isRange {
				at = withEdges(sizes, s.ranks, rules)
			}
			for _, call := range calls(rules) {
				if err := c.compare(a, coll, s, call, at); err != nil {
					return nil, err
				}
			}
		}
	}
	return c, nil
}

// compare adds the differences of one collective on one communicator.
func (c *comparison) compare(a *asker, coll policy.Coll, s shape, call question, sizes []uint64) error {
	questions := make([]question, len(sizes))
	for i, bytes := range sizes {
		questions[i] = question{coll, s, bytes, call.pipeOps, call.regBuff}
	}
	var outcomes [2][]outcome
	for i, file := range c.files {
		var err error
		if outcomes[i], err = a.ask(decider{policy: file}, s, questions); err != nil {
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
			d.before.choice(), d.before.decidedBy(decider{policy: c.files[0]}), d.after.choice(), d.after.decidedBy(decider{policy: c.files[1]}))
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
		all[i] = differenceJSON{d.before.bytes, d.last, d.before.json(decider{policy: c.files[0]}), d.after.json(decider{policy: c.files[1]})}
	}
	return writeJSON(w, all)
}
