package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

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
