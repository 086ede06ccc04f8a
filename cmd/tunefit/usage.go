package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

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

// atMost makes too many arguments a usage error.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("%d arguments given, %s (%s expected)", len(args), strings.Join(args, " "), what)
		}
		return nil
	}
}
