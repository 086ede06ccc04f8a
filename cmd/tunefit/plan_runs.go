package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// planJSON is a plan as programs read it.
type planJSON struct {
	KeyJSON
	Done     bool      `json:"done"`
	Why      string    `json:"why"`
	Edge     int       `json:"edge_channels,omitempty"` // the fewest or most channels tried, if they win
	Measured int       `json:"measured_configurations"`
	Runs     []runJSON `json:"runs"`
	// Unmet lists what was asked for in vain. The plan does not ask for it again.
	Unmet []string `json:"unmet,omitempty"`
}

// runJSON is one start of nccl-tests.
type runJSON struct {
	Sizes []uint64 `json:"sizes"`
	// Configurations are what the run's policy asks for; left out: the default.
	Configurations []choiceJSON      `json:"configurations,omitempty"`
	Env            map[string]string `json:"env"`
	Commands       []string          `json:"commands"`
}

// choiceJSON is what a run measures with one configuration.
type choiceJSON struct {
	nccl.Config
	Sizes []uint64 `json:"sizes"`
}

func (f *planFlags) plan(space fit.Space, group *fit.Group) planJSON {
	next := space.Next(group)
	p := planJSON{
		KeyJSON: KeyJSON(space.Key), Done: len(next.Runs) == 0, Edge: next.Edge, Runs: []runJSON{},
		Unmet: perfrun.Unmet(space, group),
	}
	if group != nil {
		p.Measured = len(group.Configs())
	}
	switch next.Stage {
	case fit.StageDefault:
		p.Why = "the default comes first: what is gained is counted against it"
	case fit.StageMost:
		p.Why = "all algorithms and protocols with most channels"
	case fit.StageRounds:
		p.Why = "at each size what may be faster than all that was measured there"
	case fit.StageOver:
		p.Why = "the last runs gained too little, or nothing is left; what was not measured may still be faster"
	}
	for _, r := range next.Runs {
		p.Runs = append(p.Runs, f.commands(perfrun.Of(space.Key, r), true))
	}
	return p
}

// verification plans to measure the default and what may be faster once more, in turns.
func (f *planFlags) verification(space fit.Space, group *fit.Group) planJSON {
	p := planJSON{
		KeyJSON: KeyJSON(space.Key), Runs: []runJSON{},
		Measured: len(group.Configs()), Done: group.IsVerified(space.Sizes), Why: "all sizes are verified",
	}
	if p.Done {
		return p
	}
	starts := perfrun.Verification(space.Key, space.Sizes, space.Verification(group), f.repetitions)
	if p.Done = len(starts) == 0; p.Done {
		p.Why = "nothing that was measured comes near the default"
		return p
	}
	p.Why = "the default and the fastest of each size, in turns, " + plural.Of(f.repetitions, "repetition")
	written := map[string]bool{}
	for _, s := range starts {
		p.Runs = append(p.Runs, f.commands(s, !written[s.Policy]))
		written[s.Policy] = true
	}
	return p
}

func choices(s perfrun.Start) (all []choiceJSON) {
	for _, row := range s.Rows {
		c := choiceJSON{Config: row.Config}
		for _, b := range s.Sizes {
			if row.Bytes.Contains(b) {
				c.Sizes = append(c.Sizes, b)
			}
		}
		all = append(all, c)
	}
	return all
}

// commands returns the shell commands of a start: one writes its policy, the others start nccl-tests.
func (f *planFlags) commands(s perfrun.Start, withPolicy bool) runJSON {
	r := runJSON{Sizes: s.Sizes, Configurations: choices(s), Env: map[string]string{}, Commands: []string{}}
	if len(s.Rows) > 0 {
		r.Env = f.tuned(s.Policy + ".csv")
		if withPolicy {
			var lines []string
			for _, row := range s.Rows {
				lines = append(lines, row.String())
			}
			r.Commands = append(r.Commands, fmt.Sprintf(`printf '%%s\n' %s > %s.csv`,
				strings.Join(lines, " "), s.Policy))
		}
	}
	r.Commands = append(r.Commands, f.perf(s.Key, r.Env, s.Sizes, s.Name)...)
	return r
}

// tuned is the environment of runs with a policy.
func (f *planFlags) tuned(policy string) map[string]string {
	library, err := f.library.Find()
	if f.library.Path == "" && err != nil {
		library = cli.LibraryName // where NCCL looks for it
	}
	return perfrun.Tuned(library, policy)
}

// perf starts nccl-tests once for each stretch of sizes. Each log begins with its name, because import reads files with
// the same content once.
func (f *planFlags) perf(key fit.Key, env map[string]string, sizes []uint64, name string) (commands []string) {
	launch, gpus := f.launch, 1
	switch {
	case launch == "" && key.Nodes == 1:
		gpus = key.Ranks
	case launch == "":
		launch = fmt.Sprintf("mpirun -np %d", key.Ranks)
	}
	words := strings.Fields(launch)
	if len(env) > 0 {
		words = append(words, "env")
		for _, name := range slices.Sorted(maps.Keys(env)) {
			words = append(words, name+"="+cli.ShellWord(env[name]))
		}
	}
	words = append(words, perfrun.Program(key.Coll))
	commands = []string{fmt.Sprintf("echo '# %s' > %s.log", name, name)}
	for _, step := range perfrun.Steps(sizes, perfrun.TrimUnit(key)) {
		args := slices.Concat(words, step.Args(), []string{"-g", strconv.Itoa(gpus)})
		commands = append(commands, fmt.Sprintf("%s >> %s.log 2>&1", strings.Join(args, " "), name))
	}
	return commands
}

func (f *planFlags) write(w io.Writer, plans []planJSON) error {
	var out strings.Builder
	over := true
	for _, p := range plans {
		p.write(&out)
		over = over && p.Done
	}
	switch {
	case f.verify:
		out.WriteString("# tunefit fit makes a policy of the sweep and these logs together\n")
	case over:
		out.WriteString("# tunefit fit makes a policy of what was measured; tunefit plan --verify first measures " +
			"once more what that would choose\n")
	default:
		out.WriteString("# then import the logs and plan again with the sweep\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (p *planJSON) write(out *strings.Builder) {
	fmt.Fprintf(out, "# %s on %s, %s measured\n", p.Coll, p.Comm, plural.Of(p.Measured, "configuration"))
	if p.Done {
		fmt.Fprintf(out, "# done: %s\n", p.Why)
	} else {
		fmt.Fprintf(out, "# next %s: %s\n", plural.Of(len(p.Runs), "run"), p.Why)
	}
	if p.Edge > 0 {
		fmt.Fprintf(out, "# %d channels win at some sizes and are at the end of those tried: widen --channels\n",
			p.Edge)
	}
	for _, u := range p.Unmet {
		fmt.Fprintf(out, "# %s\n", u)
	}
	for _, r := range p.Runs {
		for _, c := range r.Commands {
			fmt.Fprintln(out, c)
		}
	}
}
