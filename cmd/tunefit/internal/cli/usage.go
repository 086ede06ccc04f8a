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
	ExitFailed = 1 // a command that looks for something found it, or a command could not do its work
	ExitUsage  = 2 // the command line is wrong
)

// ErrFailed ends a command with ExitFailed and without a message: the command has printed what it found.
var ErrFailed = errors.New("failed")

// FailIf ends a command that looks for something.
func FailIf(found bool, err error) error {
	if err == nil && found {
		return ErrFailed
	}
	return err
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
	if errors.Is(err, ErrFailed) {
		return ExitFailed
	}
	fmt.Fprintf(stderr, "tunefit: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "Try: %s --help\n", cmd.CommandPath())
		return ExitUsage
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
