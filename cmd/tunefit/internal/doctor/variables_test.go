package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func TestDoctorEnvironment(t *testing.T) {
	for _, c := range []struct {
		variable string
		want     severity
		words    []string
	}{
		{"NCCL_DEBUG=warn", isFine, []string{"NCCL_DEBUG=warn"}},
		{"NCCL_DEBUG=", isWarning, []string{"not set"}},
		{"NCCL_DEBUG=VERSION", isWarning, []string{"not shown"}},
		{"NCCL_DEBUG_SUBSYS=net,graph", isWarning, []string{"hides", "INIT"}},
		{"NCCL_DEBUG_SUBSYS=^init,tuning", isWarning, []string{"hides"}},
		{"NCCL_DEBUG_SUBSYS=^init", isFine, nil},
		{"NCCL_DEBUG_SUBSYS=all", isFine, nil},
		{"NCCL_DEBUG_SUBSYS=Tuning", isFine, nil},
		{"NCCL_DEBUG_FILE=/x", isNote, []string{"/x"}},
		{"NCCL_ALGO=Ring", isWarning, []string{"NCCL_ALGO=Ring beats"}},
		{"NCCL_PROTO=^LL128", isWarning, []string{"NCCL_PROTO=^LL128 beats"}},
		{"NCCL_MAX_NCHANNELS=4", isNote, []string{"channels"}},
		{"NCCL_CTA_POLICY=1", isWarning, []string{"NVLS"}},
		{"NCCL_CTA_POLICY=ZERO|efficiency", isWarning, []string{"NVLS"}},
		{"NCCL_CTA_POLICY=0", isFine, nil},
		{"NCCL_ENV_PLUGIN=x", isNote, []string{"does not hear"}},
		{"NCCL_TUNER_CONFIG_FLIE=p.csv", isWarning, []string{"did you mean NCCL_TUNER_CONFIG_FILE?"}},
		{"NCCL_TUNER_CONFIG=p.csv", isWarning, []string{"did you mean NCCL_TUNER_CONFIG_FILE?"}},
		{"NCCL_TUNER_TOPO=x.xml", isWarning, []string{"did you mean NCCL_TUNER_TOPO_FILE?"}},
		{"NCCL_TUNER_FOO=1", isWarning, []string{"the tuner knows NCCL_TUNER_PLUGIN, "}},
		{"NCCL_TUNER_COLOUR=p.csv", isWarning, []string{"NCCL_TUNER_COLOUR=p.csv"}},
		{"NCCL_TUNER_RELOAD=maybe", isError, []string{`"maybe"`, "allowed: live, new, off"}},
		{"NCCL_TUNER_STRICT=yes", isError, []string{"no communicator can be created"}},
		{"NCCL_TUNER_COMPARE=nowhere.csv", isError, []string{"nowhere.csv", "no such file", "nothing is compared"}},
		{"NCCL_TUNER_STALL_LIMIT=1m", isError, []string{"seconds"}},
		{"NCCL_TUNER_COMPARE=nccl NCCL_TUNER_RELOAD=new", isError,
			[]string{"NCCL_TUNER_RELOAD=new: nothing is compared"}},
		{"NCCL_TUNER_DETERMINISTIC=1", isFine, nil},
		{"NCCL_TUNER_DETERMINISTIC=on", isError, []string{`"on"`, "allowed: 0, 1"}},
		{"NCCL_TUNER_DETERMINISTIC=1 NCCL_TUNER_COMPARE=nowhere.csv", isError,
			[]string{"NCCL_TUNER_COMPARE=nowhere.csv is refused under NCCL_TUNER_DETERMINISTIC=1"}},
		{"NCCL_TUNER_DETERMINISTIC=1 NCCL_TUNER_RELOAD=new", isError,
			[]string{"NCCL_TUNER_RELOAD=new is refused under NCCL_TUNER_DETERMINISTIC=1"}},
		{"NCCL_TUNER_CANARY=1 NCCL_TUNER_RELOAD=off", isError, []string{"NCCL_TUNER_RELOAD=off: nothing is compared"}},
	} {
		t.Log(c.variable)
		d := testDoctor(t, append([]string{"NCCL_DEBUG=INFO"}, strings.Fields(c.variable)...)...)
		mustFind(t, d.examine(t.Context(), only("environment")), "environment", c.want, c.words...)
	}
}

// NCCL's files count as in NCCL: the environment wins, then the user's file, then the
// machine's, each line taken as it is.
func TestDoctorConfFiles(t *testing.T) {
	home := t.TempDir()
	user, machine := filepath.Join(home, ".nccl.conf"), filepath.Join(home, "etc.conf")
	for file, text := range map[string]string{
		user: "# a comment\nNCCL_DEBUG=INFO\nNCCL_PROTO =LL\n",
		machine: "NCCL_DEBUG=VERSION\nNCCL_ALGO=Tree\nNCCL_TUNER_RELOAD=\"new\"\nexport NCCL_TUNER_LOG=decisions\n" +
			"NCCL_SOCKET_IFNAME==eth0\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	examine := func(environ ...string) []Finding {
		d := testDoctor(t)
		d.env = localenv.ReadEnvironment(environ, home, machine)
		return d.examine(t.Context(), only("environment"))
	}
	findings := examine("NCCL_TUNER_STALL_LIMIT=5")
	mustFind(t, findings, "environment", isWarning, fmt.Sprintf("NCCL_ALGO=Tree (%s:2)", machine))
	mustFind(t, findings, "environment", isNote,
		machine+`:1 sets NCCL_DEBUG=VERSION without effect: "INFO" of `+user+":2")
	mustFind(t, findings, "environment", isWarning, user+`:3 sets "NCCL_PROTO "`, "write NCCL_PROTO=LL")
	mustFind(t, findings, "environment", isWarning, machine+":3", "quotes")
	mustFind(t, findings, "environment", isError, tuner.EnvReload, `\"new\"`)
	mustFind(t, findings, "environment", isWarning, machine+`:4 sets "export NCCL_TUNER_LOG"`)
	mustFind(t, findings, "environment", isNote, machine+" sets NCCL_ALGO, NCCL_SOCKET_IFNAME")

	for _, f := range examine("NCCL_ALGO=Tree") { // the same value
		if strings.Contains(f.Found, "NCCL_ALGO=Tree without effect") {
			t.Error(f)
		}
	}

	findings = examine("NCCL_ALGO=Ring", "NCCL_CONF_FILE="+filepath.Join(home, "absent"))
	mustFind(t, findings, "environment", isWarning, "NCCL_ALGO=Ring beats")
	mustFind(t, findings, "environment", isNote, "NCCL_ALGO=Tree without effect", "environment wins")
	mustFind(t, findings, "environment", isWarning, "absent cannot be read")
	mustFind(t, findings, "environment", isNote, user+" is not read")
	mustFind(t, findings, "environment", isWarning, "NCCL_DEBUG=VERSION") // the user's INFO is not read
}

// What is wrong with the files is what the tuner would say, and what comes of it.
func TestDoctorFiles(t *testing.T) {
	good := testlib.File(t, "good.csv", "allreduce,0,inf,ring,simple,-1,-1,-1\n")
	bad := testlib.File(t, "bad.csv", strings.Repeat("allreduce,0,inf,rign,simple,-1,-1,-1\n", 7))
	odd := testlib.File(t, "odd.csv", "allreduce,0,4294967295,ring,simple,-1,-1,-1\n")
	open := testlib.File(t, "open.csv", "allreduce,0,inf,ring,simple,-1,-1,-1\n")
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	same := testlib.File(t, "same.csv", "allreduce,0,inf,ring,simple,8,-1,-1\n")
	model := testlib.File(t, "m.json", "{}")
	const policyIs, modelIs, strict = tuner.EnvConfigFile + "=", tuner.EnvModelFile + "=", tuner.EnvStrict + "=1"
	const deterministic = tuner.EnvDeterministic + "=1"
	for _, c := range []struct {
		environ []string
		want    severity
		words   []string
	}{
		{nil, isWarning, []string{"NCCL decides everything"}},
		{[]string{strict}, isError, []string{"no communicator"}},
		{[]string{tuner.EnvStrict + "=0"}, isWarning, []string{"NCCL decides everything"}},
		{[]string{policyIs + good}, isFine, []string{good, "1 row", "version "}},
		{[]string{policyIs + good + "x"}, isError, []string{"no such file", "NCCL decides everything"}},
		{[]string{policyIs + good + "x", strict}, isError, []string{"no such file", "no communicator"}},
		{[]string{policyIs + "/dev/null"}, isError, []string{"not a regular file"}},
		{[]string{policyIs + bad}, isError, []string{"bad.csv:1:4: unknown algorithm", "and 2 more",
			"tunefit check " + bad}},
		{[]string{policyIs + testlib.File(t, "p.csv.gz", testlib.Zipped(t, "collective,algorithm\n"))}, isError,
			[]string{"p.csv.gz is compressed"}},
		{[]string{policyIs + testlib.File(t, "sweep.csv", "collective,size_bytes,time_us\n")}, isError,
			[]string{"sweep.csv is a sweep", "tunefit fit"}},
		{[]string{policyIs + odd}, isWarning, []string{"1 warning in", "4gib-bound", "tunefit check " + odd}},
		{[]string{policyIs + open}, isError, []string{open + " cannot be used", "everybody can write to it",
			"-> if whoever can change it may decide for the job: NCCL_TUNER_FILES_TRUST=1"}},
		{[]string{policyIs + open, tuner.EnvFilesTrust + "=1"}, isWarning, []string{"anybody can write " + open}},
		{[]string{policyIs + good, modelIs + model}, isError, []string{"m.json", "is not used"}},
		{[]string{policyIs + good, modelIs + model}, isFine, []string{good}},
		{[]string{policyIs + good, deterministic}, isError, []string{good + " is refused under NCCL_TUNER_DETERMINISTIC=1, ",
			"good.csv:1:6: the row leaves channels to NCCL", "tunefit check --invariant " + good}},
		{[]string{policyIs + same, deterministic}, isFine, []string{same}},
		{[]string{policyIs + same, modelIs + model, deterministic}, isError, []string{"m.json is refused under",
			"a model chooses by the size", "unset NCCL_TUNER_MODEL_FILE"}},
	} {
		t.Log(c.environ)
		mustFind(t, testDoctor(t, c.environ...).examine(t.Context(), only("files")), "files", c.want, c.words...)
	}
	five := testlib.File(t, "five.csv", strings.Repeat("allreduce,0,inf,rign,simple,-1,-1,-1\n", 5))
	for _, f := range testDoctor(t, policyIs+five).examine(t.Context(), only("files")) {
		if !strings.Contains(f.Found, "five.csv:5:4: ") || strings.Contains(f.Found, " more") {
			t.Errorf("not all five faults: %s", f.Found)
		}
	}
	t.Chdir(filepath.Dir(good))
	mustFind(t, testDoctor(t, policyIs+"good.csv").examine(t.Context(), only("files")), "files", isWarning,
		"depends on the folder")
	d := testDoctor(t, policyIs+good)
	d.Nodes = 4
	mustFind(t, d.examine(t.Context(), only("files")), "files", isFine, "must be the same on all 4 nodes")
}
