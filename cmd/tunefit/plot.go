package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/plot"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

type plotFlags struct {
	plot.Options
	in     *cli.Inputs
	output string
	force  bool
	coll   string
	comm   string
}

func plotCommand(env ncclchoice.Env) *cobra.Command {
	f := plotFlags{in: env.Inputs}
	cmd := &cobra.Command{
		Use:   "plot MODEL.json|SWEEP... -o FILE.png|FILE.svg",
		Short: "Draw measured times and the curves between them",
		Long: `Draw times over sizes, both logarithmic, of one collective on one communicator. Dots are
measurements. Lines are the times that decisions assume in between. The dashed black
line is NCCL's choice. It draws the configurations that are the fastest at most
sizes.

Without --coll and --comm it draws the first of the file and names the others. tunefit
fit --report shows them all in a browser.`,
		Example: `  tunefit plot model.json -o allreduce.svg --coll allreduce --comm 2x8
  tunefit plot sweeps/*.csv -o first.png --top 4`,
		Args: cli.Args(1, -1, "a model, or one sweep or more"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "picture to write: its suffix says of which kind, "+
		strings.Join(plot.Formats, " or "))
	cmd.Flags().BoolVar(&f.force, "force", false, "overwrite the picture if it is there")
	cmd.Flags().StringVar(&f.coll, "coll", "", "collective, as allreduce (default: the first there is)")
	cmd.Flags().StringVar(&f.comm, "comm", "",
		"communicator as NODESxRANKS_PER_NODE, as 2x8 (default: the first there is)")
	cmd.Flags().IntVar(&f.Top, "top", 8, "how many configurations to draw, the fastest first")
	return cmd
}

func (f *plotFlags) run(cmd *cobra.Command, files []string) error {
	if f.output == "" {
		return cli.Usagef("no picture to write to (needed: -o FILE.png or -o FILE.svg)")
	}
	f.Format = strings.ToLower(strings.TrimPrefix(filepath.Ext(f.output), "."))
	if !slices.Contains(plot.Formats, f.Format) {
		return cli.Usagef("-o %s: the suffix %q is of no picture that can be drawn (allowed: .%s)", f.output,
			filepath.Ext(f.output), strings.Join(plot.Formats, ", ."))
	}
	if f.Top < 1 {
		return cli.Usagef("--top %d (allowed: 1 or more)", f.Top)
	}
	if f.coll != "" {
		coll, err := cli.ParseColl(f.coll)
		if err != nil {
			return cli.Usagef("%w", err)
		}
		f.coll = coll.String()
	}
	if err := cli.MayWrite(f.output, f.force, files...); err != nil {
		return err
	}
	m, i, err := f.group(cmd, files)
	if err != nil {
		return err
	}
	draw := func(w io.Writer) error { return plot.Write(w, m, &m.File.Groups[i], f.Options) }
	if err := cli.WriteWhole(f.output, f.force, draw); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", f.output)
	return nil
}

// group returns a model and the index of the group to draw. It reads the model, or fits that group of the sweeps.
func (f *plotFlags) group(cmd *cobra.Command, files []string) (m *model.Model, i int, err error) {
	for _, name := range files {
		k, err := f.in.Kind(name)
		switch is := k == cli.KindModel; {
		case err != nil:
			return nil, 0, err
		case is && len(files) > 1:
			return nil, 0, cli.Usagef("%s is a model (needed: one model alone, or sweeps)", name)
		case is:
			return f.ofModel(cmd, name)
		}
	}
	set, _, rejected, err := readSweeps(f.in, cmd, files, f.force)
	if err != nil {
		return nil, 0, err
	}
	writeRows(cmd.ErrOrStderr(), set, rejected)
	set.Groups = slices.DeleteFunc(set.Groups, func(g *fit.Group) bool { return len(g.Points) == 0 })
	var keys []fit.Key
	for _, g := range set.Groups {
		keys = append(keys, g.Key)
	}
	if i, err = f.choose(cmd, keys); err != nil {
		return nil, 0, err
	}
	set.Groups = set.Groups[i : i+1]
	file, _ := fit.Fit(set, fit.Options{})
	m, err = model.Compile("the sweeps", file)
	return m, 0, err
}

func (f *plotFlags) ofModel(cmd *cobra.Command, name string) (m *model.Model, i int, err error) {
	text, err := f.in.Text(name, cli.KindModel)
	if err != nil {
		return nil, 0, err
	}
	if m, err = model.Read(name, text); err != nil {
		return nil, 0, err
	}
	var keys []fit.Key
	for i := range m.File.Groups {
		keys = append(keys, m.File.Groups[i].Key())
	}
	i, err = f.choose(cmd, keys)
	return m, i, err
}

// choose finds the group asked for, and notes which others there are.
func (f *plotFlags) choose(cmd *cobra.Command, keys []fit.Key) (int, error) {
	if len(keys) == 0 {
		return 0, errors.New("nothing to plot: nothing but the default was measured, or nothing at all")
	}
	var fitting []int
	for i, k := range keys {
		if (f.coll == "" || k.Coll.String() == f.coll) && (f.comm == "" || k.Comm.String() == f.comm) {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 {
		return 0, fmt.Errorf("nothing to plot: there is no %s (there are: %s)", strings.TrimSpace(f.coll+" "+f.comm),
			namesOf(keys))
	}
	if len(fitting) > 1 {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: this is %s; --coll and --comm choose another of %s\n", keys[fitting[0]],
			namesOf(keys))
	}
	return fitting[0], nil
}

// namesOf lists groups, not too many.
func namesOf(keys []fit.Key) string {
	var names []string
	for _, k := range keys {
		names = append(names, k.String())
	}
	return cli.Few(names, 20, ", ")
}
