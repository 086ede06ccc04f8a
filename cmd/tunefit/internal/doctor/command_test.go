package doctor_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// The worst comes first, with what to do, and the command ends with 1.
func TestDoctorCommand(t *testing.T) {
	testlib.NeedPlugin(t)
	t.Setenv("NCCL_TUNER_PLUGIN", testlib.Library)
	t.Setenv(tuner.EnvConfigFile, "/absent.csv")
	out, _ := tunefit(t, cli.ExitFailed, "doctor", "--plugin", testlib.Library)
	if first, _, _ := strings.Cut(out, "\n"); !strings.HasPrefix(first, "error    files ") ||
		!strings.Contains(out, "-> correct the path") {
		t.Errorf("%s", out)
	}
	out, _ = tunefit(t, cli.ExitFailed, "doctor", "--plugin", testlib.Library, "--json")
	var findings []struct{ Check, Severity, Found, Do string }
	if err := json.Unmarshal([]byte(out), &findings); err != nil || findings[0].Severity != "ok" ||
		findings[0].Check != "plugin" || findings[0].Found == "" {
		t.Errorf("%v: %s", err, out)
	}
	if _, said := tunefit(t, cli.ExitUsage, "doctor", "--nodes", "0"); !strings.Contains(said, "--nodes 0") {
		t.Errorf("%s", said)
	}
}

// Before there is a policy, nothing is wrong with a node where the tuner's variables are not set, alone or by a
// launcher. What spoils measurements is found all the same.
func TestDoctorOfTheMachine(t *testing.T) {
	soundOnNodes(t)
	for _, name := range []string{"NCCL_DEBUG", "NCCL_TUNER_PLUGIN", tuner.EnvConfigFile, tuner.EnvReload} {
		os.Unsetenv(name)
	}
	for _, args := range [][]string{{"--machine"}, {"--machine", "--launch", "env", "--nodes", "1"}} {
		code := cli.ExitOK
		if _, err := os.Stat("/dev/nvidiactl"); err != nil { // it warns that there is no GPU
			code = cli.ExitFailed
		}
		out, said := tunefit(t, code, append([]string{"doctor"}, args...)...)
		if said := regexp.MustCompile(`(?m)^(warning|error) +(environment|cpu|limits)`).FindString(out); said != "" {
			t.Errorf("%v: %s\n%s", args, said, out)
		}
		if strings.Contains(out, "NCCL_TUNER_") || strings.Contains(out, "NCCL_DEBUG") ||
			!strings.Contains(out, "ok       environment") {
			t.Errorf("%v: %s%s", args, out, said)
		}
	}
	t.Setenv("NCCL_ALGO", "ring")
	if out, _ := tunefit(t, cli.ExitFailed, "doctor", "--machine"); !strings.Contains(out, "NCCL_ALGO=ring") {
		t.Error(out)
	}
}
