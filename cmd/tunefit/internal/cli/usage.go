package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // a command that looks for something found it, or another command failed
	ExitCannot = 2 // a command that looks for something could not look
	ExitUsage  = 2
)

// exitError ends a command with an exit code of its own, and silently if it has no error.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

func (e exitError) Error() string {
	if e.error == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.error.Error()
}

// ExitWith ends a command silently with an exit code; nil for exitOK.
func ExitWith(code int) error {
	if code == ExitOK {
		return nil
	}
	return exitError{code: code}
}

// Verdict ends a command that looks for something, as diff(1) does, with 0, ExitFailed or ExitCannot.
func Verdict(found bool, err error) error {
	switch {
	case err != nil:
		return exitError{ExitCannot, err}
	case found:
		return ExitWith(ExitFailed)
	}
	return nil
}

// usageError is a wrong command line.
type usageError struct{ error }

// Usagef is an error in the command line itself, with exit code ExitUsage.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// ExitCode prints a command's error and returns the exit code that it means.
func ExitCode(cmd *cobra.Command, err error, stderr io.Writer) int {
	if err == nil {
		return ExitOK
	}
	var own exitError
	if errors.As(err, &own) && own.error == nil {
		return own.code
	}
	fmt.Fprintf(stderr, "tunefit: %v\n", err)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "Try: %s --help\n", cmd.CommandPath())
		return ExitUsage
	case errors.As(err, &own):
		return own.code
	}
	return ExitFailed
}

// FlagsOnly makes any argument a usage error.
func FlagsOnly(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("unexpected argument %q (needed: flags only)", args[0])
	}
	return nil
}

// Args makes a wrong number of arguments a usage error; most below 0 is any number.
func Args(least, most int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return Usagef("%d arguments given (needed: %s)", len(args), what)
		}
		return nil
	}
}

type duration time.Duration

// String writes 5m, not 5m0s. It writes 0 as a help text expects it, which then prints no default.
func (d *duration) String() string {
	if *d == 0 {
		return "0"
	}
	return strings.ReplaceAll(time.Duration(*d).String(), "m0s", "m")
}

func (d *duration) Type() string { return "duration" }

func (d *duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return errors.New("not a duration (allowed: 0 and more, as 30s, 5m, 1h30m)")
	}
	*d = duration(v)
	return nil
}

// Duration adds a flag of a duration, 0 or more.
func Duration(flags *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	flags.Var((*duration)(p), name, usage)
}
