package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

type planFlags struct {
	choices perfrun.Choices
	launch  string
	library cli.LibraryFlag
	asJSON  bool
	profile string

	verify      bool
	repetitions int
}

func planCommand(env ncclchoice.Env) *cobra.Command {
	f := planFlags{choices: perfrun.Choices{Topology: ncclchoice.Flags{Env: env}}}
	cmd := &cobra.Command{
		Use:   "plan [SWEEP...]",
		Short: "Say what to measure next, and when to stop",
		Long: `Say what to measure next, and when to stop: the runs of nccl-tests that are worth their
time after what was measured so far. Run what it prints, import the logs, and plan
again with the new sweep. The first time there is no sweep.

It plans the default first, then all algorithms and protocols with most channels. Each
later run measures, at each size, what may be faster than all so far:
  - fewest channels where latency decides
  - what wins at the sizes next to it
  - the middle between the best number of channels and the next measured
It ends when two runs in a row improve the times by less than 0.2 % in the mean of all
sizes. That takes a sixth to a half of the time that measuring everything takes. What was
not measured may still be faster. tunefit sweep runs the same.

It prints a shell script, in which all but the commands is a comment. The script
measures configurations as a job would run them: by this project's tuner library with a
policy. A tuner cannot have channels that only NCCL_MIN_NCHANNELS makes. NCCL finds the
library in LD_LIBRARY_PATH, and --plugin names another place. On several nodes the script
has to be in a folder that all of them see.

Logs tell tunefit import what ran and what was asked for, by their names and by what
the tuner says in them. The plan asks for nothing twice, and says so:
  - what NCCL does not have here fails once
  - what an aborted run did not reach is left out
  - where NCCL keeps its own number of channels, no other one is planned
To try a run again, start it by hand and import its new log. With --topo it does not
plan what the machine lacks.

With --verify it measures once more: the default and, of each size, the three fastest
configurations that are within 10 % of the least time. It measures in turns: one start for
the default, one for each policy, and the default at the end. Fit the new logs together
with the sweep: the mean of all times of a configuration counts. At each size the fastest
is chosen if it gains more than two of its times, or of the default, are apart. A machine
that changes meanwhile is no gain. Rows say that they are verified.`,
		Example: `  tunefit plan --coll allreduce --comm 1x8 --sizes 4K-1G > next.sh
  tunefit plan --coll allreduce,allgather --comm 1x8,2x8 --topo system.xml > next.sh
  tunefit plan sweeps/later.csv > next.sh
  tunefit plan --verify sweeps/*.csv > verify.sh`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	f.choices.Register(cmd, " (default: those of the sweep)")
	f.library.Register(cmd, "that runs load")
	flags.StringVar(&f.launch, "launch", "", "what starts the ranks (default: nothing on one node, on several mpirun)")
	flags.BoolVar(&f.verify, "verify", false, "measure the default and the fastest of each size once more")
	flags.IntVar(&f.repetitions, "repetitions", 1, "with --verify: how often")
	flags.StringVar(&f.profile, "profile", "",
		"job profile: plan what the job calls, the heaviest first, at its sizes, or every doubling around them where "+
			"they are more than 16 (--coll, --comm and --sizes choose among it)")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command, files []string) error {
	if f.repetitions < 1 || f.repetitions > 100 {
		return cli.Usagef("--repetitions %d (allowed: 1 to 100)", f.repetitions)
	}
	if err := f.choices.Check(); err != nil {
		return err
	}
	set := &fit.Set{}
	if len(files) > 0 {
		var err error
		if set, _, _, err = readSweeps(f.choices.Topology.Inputs, cmd, files, true); err != nil {
			return err
		}
		if set.Used == 0 && len(set.Failed) == 0 && len(set.Asked) == 0 {
			return errors.New("not one usable measurement")
		}
	}
	asked, _, err := f.choices.Grid.ParseSizes()
	if err != nil {
		return err
	}
	sizesNamed := cmd.Flags().Changed("sizes")
	var job subjects
	keys, err := f.subjects(set)
	if f.profile != "" {
		job, err = subjectsOf(f.choices.Topology.Inputs, f.profile, &f.choices.Grid, cmd.ErrOrStderr())
		keys = job.keys
	}
	if err != nil {
		return err
	}
	var plans []planJSON
	for _, key := range keys {
		group, asked, sizesNamed := set.Of(key), asked, sizesNamed
		if sizes := job.sizes[key]; sizes != nil && !sizesNamed {
			asked, sizesNamed = sizes, true
		}
		space, err := f.choices.Space(key, set.Failed[key], set.NCCL)
		if err != nil {
			return err
		}
		space.Asked = set.Asked[key]
		space.LeaveOut(func(c nccl.Cell) bool { return slices.Contains(set.Failed[key], nccl.Config{Cell: c}) })
		if f.verify {
			if group == nil || len(group.Points) == 0 {
				return cli.Usagef("--verify: no configuration of %s was measured (plan without it first)", key)
			}
			space.Sizes = slices.DeleteFunc(group.Sizes(), func(b uint64) bool {
				return sizesNamed && !slices.Contains(asked, b)
			})
			if len(space.Sizes) == 0 {
				return cli.Usagef("--verify --sizes %s: no configuration of %s was measured at any of them",
					f.choices.Grid.Sizes, key)
			}
			for _, c := range group.Configs() { // without --topo, the machine has all that was measured
				if space.Limits == nil && !slices.Contains(space.Families, c.Cell) {
					space.Families = append(space.Families, c.Cell)
				}
			}
			plans = append(plans, f.verification(space, group))
			continue
		}
		space.Sizes = perfrun.Sizes(key, group, asked, sizesNamed)
		if len(space.Sizes) == 0 || space.Sizes[0] == 0 {
			return cli.Usagef("--sizes %s: the default of %s was not measured at any of them (allowed: sizes of the "+
				"sweep, above 0)", f.choices.Grid.Sizes, key)
		}
		plans = append(plans, f.plan(space, group))
	}
	switch {
	case !f.asJSON:
		return f.write(cmd.OutOrStdout(), plans)
	case len(plans) == 1:
		return cli.WriteJSON(cmd.OutOrStdout(), plans[0])
	}
	return cli.WriteJSON(cmd.OutOrStdout(), plans)
}

// subjects are the collectives and communicators to plan: those measured, as far as the flags name them. If --coll and
// --comm are both given, it is all their combinations.
func (f *planFlags) subjects(set *fit.Set) (keys []fit.Key, err error) {
	if keys, err = f.choices.Named(); err != nil || len(keys) > 0 {
		return keys, err
	}
	asked := &f.choices.Grid
	colls, err := asked.ParseColls()
	if err != nil {
		return nil, err
	}
	comms, err := asked.ParseComms(nil)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range set.Groups {
		names = append(names, g.Key.String())
		if (len(asked.Colls) == 0 || slices.Contains(colls, g.Coll)) &&
			(len(asked.Comms) == 0 || slices.Contains(comms, g.Comm)) {
			keys = append(keys, g.Key)
		}
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case len(names) > 0:
		return nil,
			cli.Usagef("nothing of that was measured (measured: %s; --coll and --comm together name what was not)",
				strings.Join(names, ", "))
	}
	return nil, cli.Usagef("nothing says what to plan (needed: a sweep, or --coll and --comm)")
}
