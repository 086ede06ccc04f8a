package sweep_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/sweep"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// A small sweep, so that settings are what takes the starts.
var smallSweep = []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-1M", "--algos", "ring", "--protos",
	"ll,simple", "--channels", "4,32"}

// The setting that gains is chosen, from a plan file, across a stop in the middle; what NCCL refuses costs one start and
// is named. Everything that is written is for the setting, and says so.
func TestSweepTriesSettings(t *testing.T) {
	const chosen = "NCCL_IB_QPS_PER_CONNECTION=4"
	starts := filepath.Join(t.TempDir(), "starts")
	c := newCluster(t, "FAKEPERF_STATE="+starts, "FAKEPERF_NOISE=0.003", "FAKEPERF_SEED=7",
		"FAKEPERF_SETTING="+chosen+":0.92,NCCL_IB_QPS_PER_CONNECTION=9:refused,NCCL_NTHREADS=256:1.1")
	plan := testlib.File(t, "plan.yaml", "try: [NCCL_IB_QPS_PER_CONNECTION=4, 9, NCCL_NTHREADS=, 256]\n")
	env := c.env
	c.env = append(slices.Clone(env), "FAKEPERF_FAIL=node-lost:9") // a meeting's start; it is a failure by chance
	_, errs := c.done(append(smallSweep, plan)...)
	c.env = env
	before := len(c.runs())
	for _, want := range []string{
		"REFUSED: NCCL refuses NCCL_IB_QPS_PER_CONNECTION=9: Invalid value 9 for NCCL_IB_QPS_PER_CONNECTION.",
		"the setting NCCL_IB_QPS_PER_CONNECTION=9 is left out, and so are those with all of its variables: NCCL refuses",
		"in 4 fresh starts each: " + chosen,
		"wrote " + filepath.Join(c.dir, "settings.conf") + ": jobs need what it sets, with a policy and without\n",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("it does not say %q:\n%s", want, errs)
		}
	}
	refused := 0
	for _, r := range c.runs() {
		if strings.Contains(r.Command, "NCCL_IB_QPS_PER_CONNECTION=9") {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("a value that is refused took %d starts", refused)
	}
	out, _ := c.done("--prove=4", "--json") // it goes on as it was asked, and measures no more
	var got struct {
		Fit struct {
			Settings []struct {
				Setting, Verdict string
				Alone            struct{ Gain, Low, High float64 }
			}
		}
		Proof struct{ Groups []json.RawMessage }
		InJob map[string]string `json:"in_job"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(c.runs()) != before+8 || got.InJob["NCCL_IB_QPS_PER_CONNECTION"] != "4" || len(got.Proof.Groups) != 1 {
		t.Errorf("%d more runs, %v\n%s", len(c.runs())-before, got.InJob, out)
	}
	for _, s := range got.Fit.Settings {
		if isChosen := s.Verdict == "chosen"; isChosen != (s.Setting == chosen) ||
			isChosen && !(s.Alone.Low > 0.07 && s.Alone.Gain < 0.09 && s.Alone.High < 0.1) {
			t.Errorf("%+v", s)
		}
	}
	for _, r := range c.runs()[before:] {
		if strings.Contains(r.Command, " "+chosen+" ") != strings.Contains(r.Log, "-policy") {
			t.Errorf("%s: %s", r.Log, r.Command)
		}
	}
	if conf := c.file("settings.conf"); !regexp.MustCompile(`(?m)\A# [^=]*\n# (7|8)\.\d % \([^=]*\) less time than without it\n` +
		chosen + `\n\z`).MatchString(conf) {
		t.Errorf("settings.conf is\n%s", conf)
	}
	for name, want := range map[string]string{
		"policy.csv": "# tunefit:under " + chosen + " -- ", "report.html": "Settings of the job",
		"plan.yaml": "\ntry: [NCCL_IB_QPS_PER_CONNECTION=4, 9, NCCL_NTHREADS=, 256]\n",
	} {
		if text := c.file(name); !strings.Contains(text, want) {
			t.Errorf("%s does not have %q:\n%s", name, want, text)
		}
	}

	// fit says of the file what the sweep says.
	policy := filepath.Join(t.TempDir(), "policy.csv")
	_, errs = tunefit(t, cli.ExitFailed, "fit", filepath.Join(c.dir, "sweep.csv"))
	if !strings.Contains(errs, " or fastest, which compares the variables)") {
		t.Errorf("fit says\n%s", errs)
	}
	out, _ = tunefit(t, cli.ExitOK, "fit", filepath.Join(c.dir, "sweep.csv"), "--runs", "fastest", "--csv", policy)
	text, err := os.ReadFile(policy)
	if err != nil || string(text) != c.file("policy.csv") || !strings.Contains(out, "\n  chosen for the job: "+chosen) {
		t.Errorf("fit: %v\n%s\n%s\nthe sweep has\n%s", err, out, text, c.file("policy.csv"))
	}

	// Who lacks the setting is told.
	for set, told := range map[string]bool{"": true, "4": false} {
		t.Setenv("NCCL_IB_QPS_PER_CONNECTION", set)
		t.Setenv("NCCL_TUNER_PLUGIN", testlib.Library)
		file := filepath.Join(c.dir, "policy.csv")
		_, errs := tunefit(t, cli.ExitOK, "show", "--comm", "1x8", file)
		t.Setenv("NCCL_TUNER_CONFIG_FILE", file)
		_, out, _ := testkit.RunAlone("doctor")
		if is := file + " was measured under " + chosen; strings.Contains(errs, is) != told ||
			strings.Contains(out, is) != told {
			t.Errorf("with %q\n%s%s", set, errs, out)
		}
		os.Unsetenv("NCCL_TUNER_CONFIG_FILE")
	}
}

// Where no setting gains, the site's own stays, and nothing of an earlier choice. The site's own is what the environment
// has; without a value a variable is unset.
func TestSweepKeepsTheSitesOwnSetting(t *testing.T) {
	c := newCluster(t, "FAKEPERF_STATE="+filepath.Join(t.TempDir(), "starts"), "FAKEPERF_NOISE=0.003", "FAKEPERF_SEED=3",
		"FAKEPERF_SETTING=NCCL_NTHREADS=256:1,NCCL_NTHREADS=128:1", "NCCL_NTHREADS=128")
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "settings.conf"), []byte("NCCL_NTHREADS=64\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs := c.done(append(smallSweep, "--try", "NCCL_NTHREADS=,128,256", "--try", "NCCL_NTHREAD=")...)
	settings := map[string]int{}
	for _, r := range c.runs() {
		settings[strings.Join(regexp.MustCompile(`-u NCCL_NTHREADS|NCCL_NTHREADS=\d+`).FindAllString(r.Command, -1), " ")]++
	}
	if len(settings) != 3 || settings["-u NCCL_NTHREADS"] == 0 || settings["NCCL_NTHREADS=256"] == 0 {
		t.Errorf("starts under %v", settings)
	}
	if !strings.Contains(errs, "NCCL_NTHREAD is no variable that tunefit knows, and is tried as it is (did you mean "+
		"NCCL_NTHREADS?)") ||
		!strings.Contains(out, "chosen for the job: the site's own setting, since no other surely gains\n") {
		t.Errorf("it says\n%s%s", out, errs)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "settings.conf")); err == nil {
		t.Errorf("settings.conf is there:\n%s", c.file("settings.conf"))
	}
}

// What cannot be tried is refused before anything runs, with the reason.
func TestSettingsThatCannotBeTried(t *testing.T) {
	for _, test := range []struct {
		try  []string
		want string
	}{
		{[]string{"NCCL_ALGO=Ring"}, "NCCL_ALGO: it decides instead of a tuner (allowed: --algos, --protos)"},
		{[]string{"NCCL_MAX_CTAS=4"}, "NCCL_MAX_CTAS: it decides the channels instead of a tuner"},
		{[]string{"NCCL_DEBUG_FILE=/tmp/x"}, "NCCL_DEBUG_FILE: it would hide what ran"},
		{[]string{"NCCL_TUNER_CONFIG_FILE=x"}, "NCCL_TUNER_CONFIG_FILE: the sweep sets it"},
		{[]string{"NCCL_NVTX_DISABLE=1"}, "NCCL_NVTX_DISABLE: it changes no time"},
		{[]string{"PATH=/bin"}, "PATH: not a variable that a sweep tries (allowed: NCCL_*, RCCL_*, FI_*,"},
		{[]string{"4"}, `"4": no variable (needed: NAME=VALUE,VALUE)`},
		{[]string{"NCCL_NTHREADS=1 2"}, `NCCL_NTHREADS: value "1 2" (allowed: `},
		{[]string{"NCCL_NTHREADS=1", "NCCL_NTHREADS=2"}, "NCCL_NTHREADS is named twice"},
		{[]string{"NCCL_NTHREADS=64,128,256,512", "NCCL_BUFFSIZE=1,2,3,4"},
			"NCCL_BUFFSIZE, NCCL_NTHREADS: 17 combinations, with the site's own setting (allowed: 16; try one variable " +
				"at a time, set its best value in the environment, then try the next)"},
	} {
		dir := filepath.Join(t.TempDir(), "sweep")
		args := append([]string{"sweep", "-o", dir, "--plugin", testlib.Library}, smallSweep...)
		for _, try := range test.try {
			args = append(args, "--try", try)
		}
		if _, errs := tunefit(t, cli.ExitUsage, args...); !strings.Contains(errs, "--try "+test.want) {
			t.Errorf("%v: it says %q, want %q", test.try, errs, test.want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%v: there is a folder", test.try)
		}
	}
	plan := testlib.File(t, "plan.yaml", "try: [NCCL_NTHREADS=1, 2,\n  NCCL_PROTO=LL]\n")
	if _, errs := tunefit(t, cli.ExitFailed, "sweep", "-o", t.TempDir(), plan); !strings.Contains(errs,
		plan+":2:3: NCCL_PROTO: it decides instead of a tuner") {
		t.Errorf("it says %q", errs)
	}
	if s, _, err := sweep.ParseSettings([]string{"NCCL_NTHREADS=64", "128", "NCCL_BUFFSIZE=1", "NCCL_NET_GDR_LEVEL=2"}); err != nil ||
		!slices.Equal(s, []string{"NCCL_BUFFSIZE=1 NCCL_NET_GDR_LEVEL=2 NCCL_NTHREADS=64",
			"NCCL_BUFFSIZE=1 NCCL_NET_GDR_LEVEL=2 NCCL_NTHREADS=128"}) {
		t.Errorf("%q, %v", s, err)
	}
}
