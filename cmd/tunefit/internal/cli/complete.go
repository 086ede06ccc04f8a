package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Complete lets shells complete the value of a flag, and that of a list after each comma. values gets the arguments of
// the command line.
func Complete(cmd *cobra.Command, flag string, values func(args []string) []string) {
	_, list := cmd.Flags().Lookup(flag).Value.(pflag.SliceValue)
	complete := func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		directive, named := cobra.ShellCompDirectiveNoFileComp, []string{}
		before := ""
		if list { // another one may follow
			directive |= cobra.ShellCompDirectiveNoSpace
			before = typed[:strings.LastIndexByte(typed, ',')+1]
			named = strings.Split(before, ",")
		}
		var found []string
		for _, value := range values(args) {
			if strings.HasPrefix(value, typed[len(before):]) && !slices.Contains(named, value) {
				found = append(found, before+value)
			}
		}
		return found, directive
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // it is there already
	}
}

// CompleteNames lets shells complete the names of collectives, algorithms and protocols in the flags of a command.
func CompleteNames(cmd *cobra.Command) {
	for flag, values := range map[string][]string{
		"coll":  nccl.Colls.Known,
		"algo":  nccl.Algos.Known,
		"proto": nccl.Protos.Known,
	} {
		for _, flag := range []string{flag, flag + "s"} {
			if cmd.Flags().Lookup(flag) != nil {
				Complete(cmd, flag, func([]string) []string { return values })
			}
		}
	}
}

// CommNames writes communicators as --comm takes them, the small ones first, each once.
func CommNames(comms []nccl.Comm) (names []string) {
	for _, c := range slices.Compact(slices.SortedFunc(slices.Values(comms), nccl.Comm.Compare)) {
		names = append(names, c.String())
	}
	return names
}
