// Command tunefit learns tuning policies, shows what they decide, checks, tests and compares them, and shows a
// machine as NCCL sees it.
// Run it without arguments for the list of commands; README.md begins with five of them, and docs/CHECKS.md, docs/MODEL.md,
// docs/LIVE.md and docs/TOPOLOGY.md have the rest.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		// A sweep of a million rows fits into 1 GiB, if the collector knows that it must.
		debug.SetMemoryLimit(800 << 20)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// exitError ends a command with a code of its own and nothing more to say.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// failure is an error that ends a command with a code of its own.
type failure struct {
	code exitError
	error
}

func (f failure) Unwrap() error { return f.error }

// usageError is a wrong command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	defer resetInputs(stdin)()
	root := &cobra.Command{
		Use:           "tunefit",
		Short:         "Learn, show, check and compare tuning policies of libnccl-tuner-go.so, and show the machine as NCCL sees it",
		Version:       tuner.Release,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &output{Writer: stdout}
	root.SetOut(out)
	stderr = printable{stderr}
	root.SetErr(stderr)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(importCommand(), simulateCommand(), planCommand(), fitCommand(), evalCommand(), plotCommand(), checkCommand(), testCommand(), showCommand(), explainCommand(), diffCommand(), topoCommand(),
		doctorCommand(), statusCommand(), pushCommand(), gcCommand())
	for _, c := range root.Commands() {
		switch c.Name() { // the others' output may be a file
		case "check", "diff", "doctor", "eval", "explain", "gc", "push", "show", "test":
			c.SetOut(printable{out})
		}
	}

	var code exitError
	var failed failure
	var usage usageError
	err := oneDash(root, args)
	if err == nil {
		err = root.Execute()
	}
	switch err := out.complete(err); {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &failed):
		fmt.Fprintf(stderr, "tunefit: %v\n", err)
		return int(failed.code)
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "tunefit: %v\nTry: tunefit --help\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "tunefit: %v\n", err)
		return exitFailed
	}
}

// flagsOnly makes any argument a usage error.
func flagsOnly(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q (needed: flags only)", args[0])
	}
	return nil
}

// exactly makes a wrong number of arguments a usage error.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%d arguments given (needed: %s)", len(args), what)
		}
		return nil
	}
}
