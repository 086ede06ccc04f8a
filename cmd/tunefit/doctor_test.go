package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// The worst comes first, with what to do, and the command ends with 1.
func TestDoctorCommand(t *testing.T) {
	testlib.NeedPlugin(t)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "NCCL_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("NCCL_TUNER_PLUGIN", testlib.Library)
	t.Setenv(tuner.EnvConfigFile, "/absent.csv")
	out, _ := tunefit(t, exitFound, "doctor", "--plugin", testlib.Library)
	if first, _, _ := strings.Cut(out, "\n"); !strings.HasPrefix(first, "error    files ") || !strings.Contains(out, "-> correct the path") {
		t.Errorf("%s", out)
	}
	out, _ = tunefit(t, exitFound, "doctor", "--plugin", testlib.Library, "--json")
	var findings []struct{ Check, Severity, Found, Do string }
	if err := json.Unmarshal([]byte(out), &findings); err != nil || findings[0].Severity != "ok" || findings[0].Check != "plugin" || findings[0].Found == "" {
		t.Errorf("%v: %s", err, out)
	}
	if _, said := tunefit(t, cli.ExitUsage, "doctor", "--nodes", "0"); !strings.Contains(said, "--nodes 0") {
		t.Errorf("%s", said)
	}
}
