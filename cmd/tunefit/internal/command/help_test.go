package command

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// subcommands reads the names of commands out of a help text.
func subcommands(help string) (names []string) {
	for _, line := range regexp.MustCompile(`(?m)^  (\w+)  +[A-Z]`).FindAllStringSubmatch(help, -1) {
		names = append(names, line[1])
	}
	return names
}

// The first page groups the commands by what they are for.
func TestHelpGroups(t *testing.T) {
	help, _ := tunefit(t, cli.ExitOK, "--help")
	for _, group := range []string{"Measure and learn:", "Look and check:", "Run and watch:", "Job profiles:"} {
		if !strings.Contains(help, "\n"+group+"\n  ") {
			t.Errorf("no group %q:\n%s", group, help)
		}
	}
	if strings.Contains(help, "Available Commands") {
		t.Errorf("a command without a group:\n%s", help)
	}
	for _, command := range []string{"", "check", "topo", "topo graphs", "help"} {
		words := strings.Fields(command)
		want, _ := tunefit(t, cli.ExitOK, append(words, "--help")...)
		if got, _ := tunefit(t, cli.ExitOK, append([]string{"help"}, words...)...); got != want {
			t.Errorf("tunefit help %s:\n%s\nwant\n%s", command, got, want)
		}
	}
}

// A flag has one default, which is told once, and none where that is nothing. --nccl is the release to assume,
// everywhere.
func TestHelpOfFlags(t *testing.T) {
	twice := regexp.MustCompile(`(?m)^.*(?:\(default.*\(default|default: none|\(default 0s?\)).*$`)
	var look func(command ...string)
	look = func(command ...string) {
		if len(command) > 2 {
			t.Fatalf("%v: no command has commands so deep; a line of its help looks like one", command)
		}
		help, _ := tunefit(t, cli.ExitOK, append(command, "--help")...)
		for _, line := range twice.FindAllString(help, -1) {
			t.Errorf("tunefit %s: %s", strings.Join(command, " "), line)
		}
		for _, line := range regexp.MustCompile(`(?m)^ +--nccl .*$`).FindAllString(help, -1) {
			if !strings.Contains(line, "--nccl string ") || !strings.Contains(line, "release of NCCL") {
				t.Errorf("tunefit %s: %s", strings.Join(command, " "), line)
			}
		}
		for _, name := range subcommands(help) {
			look(append(slices.Clone(command), name)...)
		}
	}
	look()
}
