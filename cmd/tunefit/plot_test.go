package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
)

const shippedSweep = "../../configs/sweeps/simulated-hgx-h100-2n.csv"

func TestPlot(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.json")
	tunefit(t, cli.ExitOK, "fit", shippedSweep, "-o", model)
	for name, begins := range map[string]string{"a.png": "\x89PNG", "b.SVG": "<?xml"} {
		picture := filepath.Join(dir, name)
		out, said := tunefit(t, cli.ExitOK, "plot", model, "-o", picture)
		for _, want := range []string{"note: this is allgather 2x8; --coll and --comm choose another of allgather " +
			"2x8, reducescatter 2x8, allreduce 2x8\n", "wrote " + picture} {
			if out != "" || !strings.Contains(said, want) {
				t.Errorf("%s: printed %q and said %q, want %q", name, out, said, want)
			}
		}
		if text, err := os.ReadFile(picture); err != nil || !bytes.HasPrefix(text, []byte(begins)) {
			t.Errorf("%s does not begin as its suffix says (%v)", name, err)
		}
		if _, said := tunefit(t, cli.ExitFailed, "plot", model, "-o", picture); !strings.Contains(said, "--force") {
			t.Errorf("overwritten unasked, or the message does not say how: %s", said)
		}
		tunefit(t, cli.ExitOK, "plot", model, "-o", picture, "--force")
	}

	// A sweep gives the very picture of the model that is fitted to it.
	pictures := map[string]string{}
	for _, from := range []string{model, shippedSweep} {
		picture := filepath.Join(dir, filepath.Base(from)+".svg")
		if _, said := tunefit(t, cli.ExitOK, "plot", from, "-o", picture, "--coll", "AllReduce", "--comm",
			"2x8"); strings.Contains(said, "note:") {
			t.Errorf("nothing to choose from, and it said %s", said)
		}
		text, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		pictures[from] = string(text)
	}
	if pictures[model] != pictures[shippedSweep] || !strings.Contains(pictures[model], "allreduce 2x8") {
		t.Error("the picture of a sweep is not that of its model")
	}
}

func TestPlotBadInput(t *testing.T) {
	dir := t.TempDir()
	picture := filepath.Join(dir, "x.png")
	unmodel := testlib.File(t, "m.json", `{"format": "nccl-tuner-go cost model", "version": 99}`)
	onlyDefault := testlib.File(t, "d.csv",
		`collective,size_bytes,dtype,redop,algorithm,protocol,channels,nodes,ranks,inplace,selection,time_us,algbw_gbps,busbw_gbps,source
all_reduce,1024,float,sum,,,,1,8,0,default,10,0,0,x
`)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{}, cli.ExitUsage, "0 arguments given"},
		{[]string{smallSweep}, cli.ExitUsage, "needed: -o FILE.png or -o FILE.svg"},
		{[]string{smallSweep, "-o", "x.pdf"}, cli.ExitUsage,
			`the suffix ".pdf" is of no picture that can be drawn (allowed: .png, .svg)`},
		{[]string{smallSweep, "-o", "x"}, cli.ExitUsage, "(allowed: .png, .svg)"},
		{[]string{smallSweep, "-o", picture, "--top", "0"}, cli.ExitUsage, "--top 0 (allowed: 1 or more)"},
		{[]string{smallSweep, "-o", picture, "--coll", "allredcue"}, cli.ExitUsage, `did you mean "allreduce"`},
		{[]string{smallSweep, "-o", picture, "--coll", "broadcast"}, cli.ExitFailed,
			"there is no broadcast (there are: allreduce 2x8)"},
		{[]string{smallSweep, "-o", picture, "--comm", "3x8"}, cli.ExitFailed,
			"there is no 3x8 (there are: allreduce 2x8)"},
		{[]string{smallSweep, unmodel, "-o", picture}, cli.ExitUsage,
			"m.json is a model (needed: one model alone, or sweeps)"},
		{[]string{unmodel, "-o", picture}, cli.ExitFailed, "version: 99 is not known"},
		{[]string{onlyDefault, "-o", picture}, cli.ExitFailed, "nothing to plot: nothing but the default was measured"},
		{[]string{filepath.Join(dir, "absent.csv"), "-o", picture}, cli.ExitFailed, "no such file"},
	} {
		if _, said := tunefit(t, c.code, append([]string{"plot"}, c.args...)...); !strings.Contains(said, c.says) {
			t.Errorf("%q said %q, want %q", c.args, said, c.says)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
