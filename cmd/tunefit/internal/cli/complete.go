package cli

import (
	"cmp"
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
		"coll":  CollNames(),
		"algo":  namesOf[nccl.Algo](nccl.NumAlgos),
		"proto": namesOf[nccl.Proto](nccl.NumProtos),
	} {
		for _, flag := range []string{flag, flag + "s"} {
			if cmd.Flags().Lookup(flag) != nil {
				Complete(cmd, flag, func([]string) []string { return values })
			}
		}
	}
}

// CollNames are the names of the collectives that NCCL asks tuners about.
func CollNames() []string { return namesOf[nccl.Coll](nccl.NumColls) }

func namesOf[T interface {
	~int8
	String() string
}](n int) (names []string) {
	for v := range T(n) {
		names = append(names, v.String())
	}
	return names
}

// CommNames writes communicators as --comm takes them, the small ones first, each once.
func CommNames(comms []nccl.Comm) (names []string) {
	comms = slices.SortedFunc(slices.Values(comms), func(a, b nccl.Comm) int {
		return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Ranks, b.Ranks))
	})
	for _, c := range slices.Compact(comms) {
		names = append(names, c.String())
	}
	return names
}
