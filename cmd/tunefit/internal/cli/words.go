package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// UnknownCommand is the error for a word that is no command. It suggests one.
func UnknownCommand(root *cobra.Command, word string) error {
	return Usagef("unknown command %q (%sallowed: %s)", word, suggest.DidYouMean(word, CommandNames(root)),
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

var (
	unknownLong  = regexp.MustCompile(`^unknown flag: --(\S+)`)
	unknownShort = regexp.MustCompile(`^unknown shorthand flag: '.' in -(\S+)`)
	negative     = regexp.MustCompile(`^[0-9]`)
)

// FlagError is the error for an unknown flag. It suggests one.
func FlagError(cmd *cobra.Command, err error) error {
	short := unknownShort.FindStringSubmatch(err.Error())
	if short != nil && negative.MatchString(short[1]) {
		return Usagef("-%s: no size, number or file begins with - (sizes are 1 byte or more, as 4096, 64K, 8M)",
			short[1])
	}
	for _, m := range [][]string{unknownLong.FindStringSubmatch(err.Error()), short} {
		if m == nil {
			continue
		}
		if near := nearestFlag(cmd, m[1]); near != "" {
			return Usagef("%w (did you mean --%s)", err, near)
		}
	}
	return Usagef("%w", err)
}

// nearestFlag returns the only flag that begins with what was typed, else the most similar one, else "".
func nearestFlag(cmd *cobra.Command, typed string) string {
	var names, begin []string
	typed, _, _ = strings.Cut(typed, "=")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if strings.HasPrefix(f.Name, typed) {
			begin = append(begin, f.Name)
		}
	})
	if len(begin) == 1 {
		return begin[0]
	}
	return suggest.Nearest(typed, names)
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
