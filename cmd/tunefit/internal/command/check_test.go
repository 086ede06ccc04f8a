package command

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

func TestCheckRulesAndExplanations(t *testing.T) {
	out, _ := tunefit(t, cli.ExitOK, "check", "--rules")
	if !strings.Contains(out, "\nshadowed ") {
		t.Errorf("%s", out)
	}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		name := strings.Fields(line)[0]
		if out, _ := tunefit(t, cli.ExitOK, "check", "--explain", name); !strings.HasPrefix(out, name+" (") {
			t.Errorf("%s", out)
		}
	}
}
