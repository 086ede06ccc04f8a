package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // a command that looks for something found it, or a command could not do its work
	ExitUsage  = 2 // the command line is wrong
	ExitUnseen = 3 // of push: the file is written, and not all running jobs could be seen

	ExitInterrupted = 130 // by Ctrl-C, as a shell has it: 128 and the signal's number
)

// exit ends a command with an exit code.
type exit struct {
	error
	code int
}

func (e exit) Unwrap() error { return e.error }

// These end a command without a message: it has printed what it found.
var (
	ErrFailed error = exit{errors.New("failed"), ExitFailed}
	ErrUnseen error = exit{errors.New("not all could be seen"), ExitUnseen}
)

// Interruptible returns a context that Ctrl-C and SIGTERM cancel until stop is called. Only commands that have to end
// something need it: a signal ends all others at once.
func Interruptible() (ctx context.Context, stop context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// Interrupted returns a command's error, with ExitInterrupted if a signal has cancelled its context.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return exit{cmp.Or(err, ErrFailed), ExitInterrupted}
}

// FailIf ends a command that looks for something.
func FailIf(found bool, err error) error {
	if err == nil && found {
		return ErrFailed
	}
	return err
}

// Usagef is an error in the command line itself, with exit code ExitUsage.
func Usagef(format string, args ...any) error { return exit{fmt.Errorf(format, args...), ExitUsage} }

// ExitCode prints a command's error and returns the exit code that it means.
func ExitCode(cmd *cobra.Command, err error, stderr io.Writer) int {
	if err == nil {
		return ExitOK
	}
	if !errors.Is(err, ErrFailed) && !errors.Is(err, ErrUnseen) {
		fmt.Fprintf(stderr, "tunefit: %v\n", err)
	}
	e := exit{code: ExitFailed}
	if errors.As(err, &e); e.code == ExitUsage {
		fmt.Fprintf(stderr, "Try: %s --help\n", cmd.CommandPath())
	}
	return e.code
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
			return Usagef("%s given (needed: %s)", wording.Plural(len(args), "argument"), what)
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

// UnknownCommand is the error for a word that is no command. It suggests one.
func UnknownCommand(root *cobra.Command, word string) error {
	return Usagef("unknown command %q (%sallowed: %s)", word, wording.DidYouMean(word, CommandNames(root)),
		strings.Join(CommandNames(root), ", "))
}

// CommandNames lists the commands below one that its help shows.
func CommandNames(of *cobra.Command) (names []string) {
	for _, c := range of.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// FlagError is the error for a wrong flag. Of an unknown one it says which there are, and suggests one.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return Usagef("%w", WrongValue(err))
	}
	typed := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
	if unicode.IsDigit(rune(typed[0])) {
		return Usagef("-%s: no size, number or file begins with - (sizes are 1 byte or more, as 4096, 64K, 8M)", typed)
	}
	near := nearestFlag(cmd, typed)
	if near != "" {
		near = "did you mean --" + near + "; "
	}
	return Usagef("%w (%sallowed: %s)", err, near, strings.Join(flagNames(cmd), ", "))
}

// WrongValue is the error for a value that a flag does not take. Numbers get a text of their own, as Go's says how it
// reads them.
func WrongValue(err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	why, flag := wrong.Unwrap().Error(), wrong.GetFlag()
	if value := wrong.GetValue(); len(value) > 1000 { // pflag repeats it
		return fmt.Errorf("--%s: %s, of %d bytes, is a wrong value", flag.Name, wording.Quote(value), len(value))
	}
	if number := (*strconv.NumError)(nil); errors.As(wrong, &number) {
		why = "wrong value (allowed: " + numbers[flag.Value.Type()] + ")"
	}
	return fmt.Errorf("--%s=%s: %s", flag.Name, wrong.GetValue(), why)
}

// numbers say what pflag's own types allow.
var numbers = map[string]string{
	"bool": "true, false", "int": "a whole number, as 8", "intSlice": "whole numbers, as 8,16",
}

// flagNames lists the flags of a command that its help shows.
func flagNames(of *cobra.Command) (names []string) {
	of.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}

// nearestFlag returns the only flag that begins with what was typed, else the most similar one, else "".
func nearestFlag(cmd *cobra.Command, typed string) string {
	var names, begin []string
	typed, _, _ = strings.Cut(strings.ToLower(typed), "=")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if strings.HasPrefix(f.Name, typed) {
			begin = append(begin, f.Name)
		}
	})
	if len(begin) == 1 {
		return begin[0]
	}
	return wording.Nearest(typed, names)
}

// ParseColl reads a collective. It has an error of its own for those that NCCL asks no tuner about.
func ParseColl(name string) (nccl.Coll, error) {
	c, err := nccl.Colls.Parse(name)
	if err != nil && nccl.NeverAsked(name) {
		err = fmt.Errorf("%s: NCCL asks no tuner about it (allowed: allreduce, allgather, reducescatter, broadcast, "+
			"reduce)", name)
	}
	return c, err
}
