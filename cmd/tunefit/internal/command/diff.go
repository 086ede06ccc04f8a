package command

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

func diffCommand(env cli.Env) *cobra.Command {
	c := comparison{differences: []difference{}, queryGrid: queryGrid{from: ask.Flags{Env: env}}}
	var model string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff OLD.csv NEW.csv",
		Short: "Print where two policies decide differently",
		Long: `Print where two policies decide differently, for the communicators, sizes, and values
of pipe_ops and reg_buff that a row of either file names. With --model, the model decides
what no row decides. NCCL's default is found as tunefit show finds it.

Exit code: 0 if they decide alike there, 1 if not, or if they cannot be compared.`,
		Example: `  tunefit diff configs/policies/example.csv configs/policies/headerless.csv
  tunefit diff configs/policies/example.csv configs/policies/headerless.csv --comm 2x8 --json`,
		Args: cli.Args(2, 2, "the old and the new policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.by = [2]ask.Decider{{Policy: args[0], Model: model}, {Policy: args[1], Model: model}}
			if err := c.diff(); err != nil {
				return err
			}
			c.note(cmd.ErrOrStderr())
			return cli.FailIf(len(c.differences) > 0, cli.Print(cmd.OutOrStdout(), asJSON, c.differences, c.write))
		},
	}
	c.grid.Register(cmd)
	cmd.Flags().StringVar(&model, "model", "", "cost model, as tunefit fit writes it, for what no row decides")
	c.from.Register(cmd)
	c.from.RegisterCommName(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per range of sizes")
	cli.Complete(cmd, "comm", func(args []string) []string {
		by := []ask.Decider{{Model: model}}
		for _, policy := range args {
			by = append(by, ask.Decider{Policy: policy, Model: model})
		}
		return commsOf(c.from, by...)
	})
	return cmd
}

// comparison is what diff prints.
type comparison struct {
	queryGrid
	by          [2]ask.Decider
	differences []difference
}

// difference is a run of sizes at which the policies decide differently, each in one way.
type difference struct {
	nccl.Range
	Old ask.Outcome `json:"old"` // at Min
	New ask.Outcome `json:"new"`
}

// diff asks both policies.
func (c *comparison) diff() error {
	if err := c.open(c.by[:]...); err != nil {
		return err
	}
	err := c.each(func(q ask.Question, sizes []uint64) error {
		for _, call := range q.Calls(c.asked.Files.Rules(q.Coll, q.Comm.Comm)) {
			if err := c.compare(call, sizes); err != nil {
				return err
			}
		}
		return nil
	})
	for _, d := range c.by {
		c.notes = append(c.notes, c.asked.About(d, c.comms, false)...)
	}
	slices.Sort(c.notes)
	c.notes = slices.Compact(c.notes)
	return err
}

// compare adds the differences at some sizes.
func (c *comparison) compare(call ask.Question, sizes []uint64) error {
	var outcomes [2][]ask.Outcome
	for i, by := range c.by {
		var err error
		if outcomes[i], err = c.asked.Ask(by, call, sizes...); err != nil {
			return err
		}
	}
	var run *difference
	for i := range sizes {
		before, after := outcomes[0][i], outcomes[1][i]
		switch {
		case before.Alike(after):
			run = nil
		case run != nil && run.Old.Alike(before) && run.New.Alike(after) && run.Old.Row == before.Row &&
			run.New.Row == after.Row:
			run.Max = before.Bytes
		default:
			c.differences = append(c.differences, difference{
				nccl.Range{Min: before.Bytes, Max: before.Bytes}, before, after})
			run = &c.differences[len(c.differences)-1]
		}
	}
	return nil
}

func (c *comparison) write(w io.Writer) {
	if len(c.differences) == 0 {
		fmt.Fprintln(w, "no difference")
		if before, after := c.asked.Files.Policies[0].Digest, c.asked.Files.Policies[1].Digest; before != after {
			fmt.Fprintf(w, "where they were compared: their rows do not mean the same (versions %s and %s)\n",
				before, after)
		}
		return
	}
	tw := cli.NewTable(w)
	tw.Row("collective", "comm", "size", "old", "decided by", "new", "decided by")
	for _, d := range c.differences {
		tw.Row(d.Old.Coll, d.Old.Comm, cli.SizeRange(d.Min, d.Max)+d.Old.CallText(),
			d.Old.Choice(), d.Old.DecidedBy(), d.New.Choice(), d.New.DecidedBy())
	}
	tw.Flush()
}
