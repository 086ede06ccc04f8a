package sweep_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// A bound of channels that a job will have is part of how it is measured: no run has more, and what is written names
// it. A sweep goes on under it, and never mixes times of two bounds. What forces channels is kept from runs.
func TestSweepUnderBounds(t *testing.T) {
	args := []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "1M-64M", "--algos", "ring,nvls", "--protos",
		"simple", "--channels", "4,8,32"}
	c := newCluster(t)
	c.env = []string{"FAKEPERF_NOISE=0"} // simulated: the real grid has no NVLS
	unbound := c.env
	script, _ := c.done(append(args, "--dry-run")...)
	if strings.Contains(script, "NCCL_MAX_NCHANNELS=") {
		t.Errorf("without a bound:\n%s", script)
	}
	c.env = append(unbound, "NCCL_MAX_NCHANNELS=6", "NCCL_MIN_CTAS=2", "NCCL_MAX_CTAS=2")
	if script, _ = c.done(append(args, "--dry-run")...); !strings.Contains(script, " NCCL_MAX_NCHANNELS=6 ") ||
		strings.Contains(script, "_CTAS=") {
		t.Errorf("with a bound:\n%s", script)
	}
	_, errs := c.done(args...)
	for _, want := range []string{"would decide for them: NCCL_MIN_CTAS, NCCL_MAX_CTAS\n", "under NCCL_MAX_NCHANNELS=6"} {
		if !strings.Contains(errs, want) {
			t.Errorf("it does not say %q:\n%s", want, errs)
		}
	}
	const under = "NCCL_MAX_NCHANNELS=6"
	for name, want := range map[string]string{
		"sweep.csv": ",default,", "plan.yaml": "#   " + under + "\n", "report.html": under,
		"policy.csv": "# tunefit:under " + under + " -- for jobs with these variables only\n",
	} {
		if text := c.file(name); !strings.Contains(text, want) || !strings.Contains(text, under) {
			t.Errorf("%s does not have %q:\n%s", name, want, text)
		}
	}
	if text := c.file("sweep.csv"); strings.Contains(text, ",ring,simple,8,") || !strings.Contains(text, ",ring,simple,6,") ||
		!strings.Contains(text, ",nvls,simple,8,") { // which has channels of its own
		t.Errorf("channels of\n%s", text)
	}

	c.env = unbound
	out, _ := c.done("--prove=2") // from another shell
	if runs := c.runs(); !strings.Contains(runs[len(runs)-1].Command, under) || !strings.Contains(out, " "+under+" ") {
		t.Errorf("%s\n%s", runs[len(runs)-1].Command, out)
	}
	c.env = append(unbound, "NCCL_MAX_NCHANNELS=4")
	before := len(c.runs())
	code, _, errs := c.sweep("--sizes", "512K-128M", "--prove=3")
	if code != cli.ExitFailed || len(c.runs()) != before+1 || !strings.Contains(errs, "this run was measured under "+
		"-t 1 -g 8 -n 20 -w 1 NCCL_MAX_NCHANNELS=4, and those before under -t 1 -g 8 -n 20 -w 1 "+under+": ") {
		t.Errorf("exit code %d, %d runs\n%s", code, len(c.runs())-before, errs)
	}
	c.env = unbound
	c.done("--prove=2")

	policy, learned := filepath.Join(c.dir, "policy.csv"), filepath.Join(c.dir, "model.json")
	for set, told := range map[string]bool{"": true, "4": true, "6": false} {
		t.Setenv("NCCL_MAX_NCHANNELS", set)
		t.Setenv("NCCL_TUNER_PLUGIN", testlib.Library)
		for _, of := range []struct {
			variable, file string
			args           []string
		}{
			{"NCCL_TUNER_CONFIG_FILE", policy, []string{policy}},
			{"NCCL_TUNER_MODEL_FILE", learned, []string{"--model", learned}},
		} {
			_, errs := tunefit(t, cli.ExitOK, append([]string{"show", "--comm", "1x8"}, of.args...)...)
			if strings.Contains(errs, under) != told {
				t.Errorf("show %s with %q:\n%s", of.args, set, errs)
			}
			t.Setenv(of.variable, of.file)
			_, out, _ := testkit.RunAlone("doctor") // which warns of other things, too
			if strings.Contains(out, of.file+" was measured under "+under) != told {
				t.Errorf("doctor with %s and %q:\n%s", of.file, set, out)
			}
			os.Unsetenv(of.variable)
		}
	}
}
