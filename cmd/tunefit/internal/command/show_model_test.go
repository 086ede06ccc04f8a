package command

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
)

func TestShowModel(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model)
	rows := testlib.File(t, "rows.csv",
		"allreduce,1048576,1048576,tree,simple,4,2,16\nallreduce,65536,65536,default,-1,-1,2,16\n")

	decided := func(args ...string) (by map[uint64]ask.Outcome, notes string) {
		out, notes := tunefit(t, cli.ExitOK, append([]string{"show", "--model", model, "--coll", "allreduce", "--comm",
			"2x8", "--json"}, args...)...)
		var all []ask.Outcome
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		by = map[uint64]ask.Outcome{}
		for _, o := range all {
			by[o.Bytes] = o
		}
		return by, notes
	}
	alone, _ := decided()
	both, _ := decided(rows)
	byModel := 0
	for bytes, o := range alone {
		if o.Row != 0 {
			t.Errorf("%d bytes: a row decided, and there is none", bytes)
		}
		if o.File == model {
			byModel++
			if !strings.Contains(o.Why, "less than NCCL's (uncertain by") && !strings.Contains(o.Why, " verified, ") {
				t.Errorf("%d bytes: %q", bytes, o.Why)
			}
		} else if !strings.Contains(o.Why, "the model abstains: ") {
			t.Errorf("%d bytes: %q", bytes, o.Why)
		}
		switch b := both[bytes]; bytes {
		case 1 << 20:
			if b.File != rows || b.Row != 1 || b.Policy.Algo != nccl.AlgoTree || b.Policy.Channels != 4 {
				t.Errorf("a row beside a model: %+v", b)
			}
		case 1 << 16:
			if b.File != rows || b.Row != 2 || b.Policy.Channels != 0 {
				t.Errorf("a row that leaves it to NCCL, beside a model: %+v", b)
			}
		default:
			if b.File != o.File || b.Policy != o.Policy {
				t.Errorf("%d bytes: no row is for it, and rows change %+v to %+v", bytes, o, b)
			}
		}
	}
	if byModel < 2 {
		t.Errorf("the model decided %d times", byModel)
	}
	out, notes := tunefit(t, cli.ExitOK, "show", "--model", model, "--coll", "allreduce", "--comm", "2x8,4x8")
	if !strings.Contains(out, filepath.Base(model)) ||
		!strings.Contains(notes, "the model "+model+" abstains (another number of nodes was measured)") {
		t.Errorf("%s%s", out, notes)
	}
}

// A model that names its machine is shown as on the machine of --topo.
func TestShowModelElsewhere(t *testing.T) {
	const home, other = "../../../../configs/topo/dgx-h100.xml", "../../../../configs/topo/dgx-a100.xml"
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model, "--topo", home)
	for machine, used := range map[string]bool{home: true, other: false} {
		out, notes := tunefit(t, cli.ExitOK, "show", "--model", model, "--comm", "2x8", "--topo", machine)
		if strings.Contains(out, filepath.Base(model)) != used ||
			strings.Contains(notes, "on another kind of machine; it is not used") == used {
			t.Errorf("on %s:\n%s%s", machine, out, notes)
		}
	}
}

// A note says when the estimates are not those of the machine at hand.
func TestWhoseCostModel(t *testing.T) {
	file := testlib.File(t, "p.csv", sample)
	const h100, a100 = "../../../../configs/topo/dgx-h100.xml", "../../../../configs/topo/dgx-a100.xml"
	for _, c := range []struct {
		here string
		args []string
		ends string
	}{
		{"", nil, "for HGX H100; it is not known whether this machine is one (--topo FILE names yours, --model FILE " +
			"what was measured on it)\n"},
		{h100, nil, "for HGX H100\n"},
		{a100, nil, " (--topo FILE names yours, --model FILE what was measured on it)\n"},
		{"", []string{"--topo", a100}, "for " + a100 + "\n"},
	} {
		t.Setenv(detect.TunerFileVariable, c.here)
		for _, command := range [][]string{{"show", file}, {"diff", file, file}} {
			_, said := tunefit(t, cli.ExitOK,
				append(append(command, "--coll", "allreduce", "--comm", "2x8", "--sizes", "1M"), c.args...)...)
			if !strings.HasPrefix(said, "note: NCCL's default is taken from NCCL 2.30.7's estimates ") ||
				!strings.HasSuffix(said, c.ends) ||
				strings.Contains(said, "this machine is not one (8 ") != (c.here == a100 && c.args == nil) {
				t.Errorf("%s here, %v %v: %s", c.here, command[0], c.args, said)
			}
		}
	}
}
