package testkit

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// AsTunefit is a variable whose value makes a test binary be tunefit, for what only a process can show.
const AsTunefit = "TEST_AS_TUNEFIT"

// runIn is command.Run. Main is told of it, since the tests of package command, too, run command lines by this package,
// which therefore cannot import it.
var runIn func(env cli.Env, args []string, stdout, stderr io.Writer) int

// Main is the TestMain of packages whose tests run command lines. They give it command.Main and command.Run.
func Main(m *testing.M, process func(), run func(cli.Env, []string, io.Writer, io.Writer) int) {
	if os.Getenv(AsTunefit) != "" {
		process()
	}
	runIn = run
	os.Exit(testlib.Run(m))
}

// Run runs a command line in Env, with a text as the standard input.
func Run(stdin string, args []string, stdout, stderr io.Writer) int {
	env := Env
	env.Inputs = cli.NewInputs(strings.NewReader(stdin))
	return runIn(env, args, stdout, stderr)
}

// Tunefit runs a command line, which must end with an exit code, and returns what it prints.
func Tunefit(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := RunAlone(args...)
	if code != wantCode {
		t.Errorf("tunefit %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, wantCode, stdout, stderr)
	}
	return stdout, stderr
}

// RunAlone runs a command line without standard input.
func RunAlone(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run("", args, &out, &errs)
	return code, out.String(), errs.String()
}
