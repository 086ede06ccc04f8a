package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

func showCommand() *cobra.Command {
	var grid gridFlags
	var who askFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show POLICY.csv",
		Short: "Print what a policy decides",
		Long: `Print what a policy decides, for collectives, sizes and communicators: what NCCL
would choose by itself, what it chooses with the policy, and the row that says so.
A - means that the policy leaves it to NCCL.

The tuner library is loaded and asked through NCCL's plugin ABI, so this is what
a job gets. What NCCL would choose by itself comes from NCCL 2.30.7's cost model
with the latencies and bandwidths of --tuning, or those that follow from the
topology of --topo; not from a measurement.`,
		Example: `  tunefit show configs/policies/example.csv
  tunefit show policy.csv --coll allreduce --comm 4x8 --sizes 1M-1G --json
  tunefit show policy.csv --topo configs/topo/dgx-a100.xml`,
		Args: exactly(1, "the policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			outcomes, a, err := show(args[0], grid, who)
			if err != nil {
				return err
			}
			defer a.close()
			if asJSON {
				return writeOutcomesJSON(cmd.OutOrStdout(), args[0], outcomes)
			}
			writeOutcomes(cmd.OutOrStdout(), args[0], outcomes)
			var shapes []shape
			for _, o := range outcomes {
				if len(shapes) == 0 || shapes[len(shapes)-1] != o.shape {
					shapes = append(shapes, o.shape)
				}
			}
			a.noteStandIns(cmd.ErrOrStderr(), distinct(shapes))
			return nil
		},
	}
	grid.register(cmd)
	who.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per collective, communicator and size")
	return cmd
}

func show(file string, grid gridFlags, who askFlags) ([]outcome, *asker, error) {
	colls, err := grid.parseColls()
	if err != nil {
		return nil, nil, err
	}
	sizes, err := grid.parseSizes()
	if err != nil {
		return nil, nil, err
	}
	p, err := readPolicy(file)
	if err != nil {
		return nil, nil, err
	}
	shapes, err := grid.parseShapes(p)
	if err != nil {
		return nil, nil, err
	}
	a, err := who.open()
	if err != nil {
		return nil, nil, err
	}
	var outcomes []outcome
	for _, coll := range colls {
		for _, s := range shapes {
			for _, bytes := range sizes {
				o, err := a.ask(file, coll, s, bytes)
				if err != nil {
					a.close()
					return nil, nil, err
				}
				outcomes = append(outcomes, o)
			}
		}
	}
	return outcomes, a, nil
}

// writeOutcomes prints a table. Consecutive sizes with one and the same outcome
// share a line.
func writeOutcomes(w io.Writer, file string, outcomes []outcome) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "collective\tcomm\tsize\tNCCL alone\twith policy\tchannels\tchunk\tdecided by")
	for i := 0; i < len(outcomes); {
		first := outcomes[i]
		last := first
		for i++; i < len(outcomes); i++ {
			o := outcomes[i]
			if o.coll != first.coll || o.shape != first.shape || o.nccl != first.nccl || !o.same(first) || o.row != first.row {
				break
			}
			last = o
		}
		size := sizeRange(first.bytes, last.bytes)
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", first.coll, first.shape, size, first.nccl, first.policy,
			orNCCL(int64(first.channels), strconv.Itoa(first.channels)), orNCCL(first.chunk, policy.FormatBytes(uint64(first.chunk))),
			first.decidedBy(file))
	}
	tw.Flush()
}

func sizeRange(from, to uint64) string {
	if from == to {
		return policy.FormatBytes(from)
	}
	return policy.FormatBytes(from) + " - " + policy.FormatBytes(to)
}

// orNCCL writes - for what the policy leaves to NCCL.
func orNCCL(n int64, text string) string {
	if n == 0 {
		return "-"
	}
	return text
}

func (o outcome) decidedBy(file string) string {
	if o.row == 0 {
		return "NCCL"
	}
	return fmt.Sprintf("%s:%d", file, o.row)
}

type choiceJSON struct {
	Algorithm  string  `json:"algorithm"`
	Protocol   string  `json:"protocol"`
	Channels   int     `json:"channels,omitempty"`    // left out: NCCL's own count
	ChunkBytes int64   `json:"chunk_bytes,omitempty"` // left out: NCCL's own size
	Micros     float32 `json:"us,omitempty"`          // NCCL's prediction
}

type outcomeJSON struct {
	Collective string     `json:"collective"`
	Nodes      int        `json:"nodes"`
	Ranks      int        `json:"ranks"`
	Bytes      uint64     `json:"bytes"`
	NCCL       choiceJSON `json:"nccl"`
	Policy     choiceJSON `json:"policy"`
	File       string     `json:"file,omitempty"` // left out with row: NCCL decided
	Row        int        `json:"row,omitempty"`
}

func (c cell) json() choiceJSON {
	if c.algo < 0 {
		return choiceJSON{}
	}
	return choiceJSON{Algorithm: policy.Algo(c.algo).String(), Protocol: policy.Proto(c.proto).String()}
}

func (o outcome) json(file string) outcomeJSON {
	j := outcomeJSON{Collective: o.coll.String(), Nodes: o.shape.nodes, Ranks: o.shape.ranks, Bytes: o.bytes, NCCL: o.nccl.json(), Policy: o.policy.json()}
	j.NCCL.Channels, j.NCCL.Micros = o.ncclChannels, o.ncclMicros
	j.Policy.Channels, j.Policy.ChunkBytes = o.channels, o.chunk
	if o.row > 0 {
		j.File, j.Row = file, o.row
	}
	return j
}

func writeOutcomesJSON(w io.Writer, file string, outcomes []outcome) error {
	all := make([]outcomeJSON, len(outcomes))
	for i, o := range outcomes {
		all[i] = o.json(file)
	}
	return writeJSON(w, all)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
