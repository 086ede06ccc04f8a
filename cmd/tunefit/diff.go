package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

func diffCommand() *cobra.Command {
	var grid gridFlags
	var who askFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff OLD.csv NEW.csv",
		Short: "Print where two policies decide differently",
		Long: `Print where two policies decide differently. Besides the sizes of --sizes, every
size at which a row of either file begins or ends is compared.

Exit code: 0 if they decide alike, 1 if they differ or cannot be compared.`,
		Example: `  tunefit diff old.csv new.csv
  tunefit diff old.csv new.csv --comm 2x8 --json`,
		Args: exactly(2, "the old and the new policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			differences, a, err := diff(args[0], args[1], grid, who)
			if err != nil {
				return err
			}
			defer a.close()
			if asJSON {
				err = writeDifferencesJSON(cmd.OutOrStdout(), args, differences)
			} else {
				writeDifferences(cmd.OutOrStdout(), args, differences)
			}
			if err == nil && len(differences) > 0 {
				return exitError(exitFailed)
			}
			return err
		},
	}
	grid.register(cmd)
	who.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per range of sizes")
	return cmd
}

// difference is a run of compared sizes on which both policies keep to one
// decision each, and not to the same.
type difference struct {
	before, after outcome // at the first of them
	last          uint64
}

func diff(oldFile, newFile string, grid gridFlags, who askFlags) ([]difference, *asker, error) {
	colls, err := grid.parseColls()
	if err != nil {
		return nil, nil, err
	}
	base, err := grid.parseSizes()
	if err != nil {
		return nil, nil, err
	}
	oldPolicy, err := readPolicy(oldFile)
	if err != nil {
		return nil, nil, err
	}
	newPolicy, err := readPolicy(newFile)
	if err != nil {
		return nil, nil, err
	}
	shapes, err := grid.parseShapes(oldPolicy, newPolicy)
	if err != nil {
		return nil, nil, err
	}
	a, err := who.open()
	if err != nil {
		return nil, nil, err
	}
	var all []difference
	for _, coll := range colls {
		for _, s := range shapes {
			open := false // the last difference reaches up to the size before
			for _, bytes := range edges(slices.Clone(base), s.ranks, oldPolicy, newPolicy) {
				before, err1 := a.ask(oldFile, coll, s, bytes)
				after, err2 := a.ask(newFile, coll, s, bytes)
				if err1 != nil || err2 != nil {
					a.close()
					return nil, nil, firstError(err1, err2)
				}
				switch n := len(all) - 1; {
				case before.same(after):
					open = false
				case open && all[n].before.same(before) && all[n].after.same(after) && all[n].before.row == before.row && all[n].after.row == after.row:
					all[n].last = bytes
				default:
					all = append(all, difference{before, after, bytes})
					open = true
				}
			}
		}
	}
	return all, a, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func writeDifferences(w io.Writer, files []string, differences []difference) {
	if len(differences) == 0 {
		fmt.Fprintln(w, "no difference")
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "collective\tcomm\tsize\told\tdecided by\tnew\tdecided by\n")
	for _, d := range differences {
		size := sizeRange(d.before.bytes, d.last)
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.before.coll, d.before.shape, size,
			d.before.choice(), d.before.decidedBy(files[0]), d.after.choice(), d.after.decidedBy(files[1]))
	}
	tw.Flush()
}

// choice is what the policy makes of a call, in a few words.
func (o outcome) choice() string {
	words := []string{o.policy.String()}
	if o.channels > 0 {
		words = append(words, fmt.Sprintf("%d ch", o.channels))
	}
	if o.chunk > 0 {
		words = append(words, "chunks of "+policy.FormatBytes(uint64(o.chunk)))
	}
	return strings.Join(words, ", ")
}

type differenceJSON struct {
	MinBytes uint64      `json:"min_bytes"`
	MaxBytes uint64      `json:"max_bytes"`
	Old      outcomeJSON `json:"old"`
	New      outcomeJSON `json:"new"`
}

func writeDifferencesJSON(w io.Writer, files []string, differences []difference) error {
	all := make([]differenceJSON, len(differences))
	for i, d := range differences {
		all[i] = differenceJSON{d.before.bytes, d.last, d.before.json(files[0]), d.after.json(files[1])}
	}
	return writeJSON(w, all)
}

// readPolicy reads a policy for its shapes and sizes; what it decides, the
// plugin says. All problems of the file come back in the error.
func readPolicy(file string) (*policy.Policy, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := policy.ReadCSV(file, text)
	if err != nil {
		return nil, fmt.Errorf("%s is not a policy:\n%w", file, err)
	}
	return p, nil
}

func distinct[T comparable](list []T) []T {
	var out []T
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
