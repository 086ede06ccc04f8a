package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/grid"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// planJSON is a plan as programs read it.
type planJSON struct {
	Collective string    `json:"collective"`
	Nodes      int       `json:"nodes"`
	Ranks      int       `json:"ranks"`
	Done       bool      `json:"done"`
	Why        string    `json:"why"`
	Edge       int       `json:"edge_channels,omitempty"` // a count that wins at the end of those tried
	Measured   int       `json:"measured_configurations"`
	Runs       []runJSON `json:"runs"`
	// Missed is what may still be faster than all that was measured, once the sweep is over.
	Missed []missJSON `json:"missed,omitempty"`
}

type missJSON struct {
	Configuration string   `json:"configuration"`
	Sizes         []uint64 `json:"sizes"`
	Gain          float64  `json:"gain"` // hoped for at one of them at most, as a part of the time
}

// mostMissed bounds what is said of configurations that were not measured.
const mostMissed = 5

type runJSON struct {
	Algorithm string   `json:"algorithm,omitempty"` // none: the default
	Protocol  string   `json:"protocol,omitempty"`
	Channels  int      `json:"channels,omitempty"` // none: NCCL's own
	Sizes     []uint64 `json:"sizes"`
	// Configurations are those of a run to verify, which a policy of several rows decides.
	Configurations []choiceJSON      `json:"configurations,omitempty"`
	Env            map[string]string `json:"env"`
	Commands       []string          `json:"commands"`
}

func (f *planFlags) plan(space fit.Space, group *fit.Group) planJSON {
	next := space.Next(group)
	p := planJSON{
		Collective: space.Coll.String(), Nodes: space.Nodes, Ranks: space.Ranks,
		Done: len(next.Runs) == 0, Edge: next.Edge, Runs: []runJSON{},
	}
	if group != nil {
		p.Measured = len(group.Configs())
	}
	switch next.Stage {
	case fit.StageDefault:
		p.Why = "the default comes first: what is gained is counted against it"
	case fit.StageMost:
		p.Why = "all algorithms and protocols with most channels"
	case fit.StageFewest:
		p.Why = "fewest channels, at the sizes where they may be the fastest"
	case fit.StageBetween:
		p.Why = "what may be faster than all that was measured"
	case fit.StageOver:
		p.Why = "nothing left promises enough for its time"
	}
	if !p.Done {
		next.Missed = nil
	}
	for _, m := range next.Missed[:min(len(next.Missed), mostMissed)] {
		p.Missed = append(p.Missed, missJSON{m.Config.String(), m.Sizes, m.Gain})
	}
	for _, r := range next.Runs {
		p.Runs = append(p.Runs, f.commands(space.Key, r))
	}
	return p
}

var perfPrograms = map[nccl.Coll]string{
	nccl.CollBroadcast: "broadcast_perf", nccl.CollReduce: "reduce_perf", nccl.CollAllGather: "all_gather_perf",
	nccl.CollReduceScatter: "reduce_scatter_perf", nccl.CollAllReduce: "all_reduce_perf",
}

// commands writes a run down: one command for each stretch of sizes that
// nccl-tests can step through. A configuration is a row for the tuner, as in the job.
func (f *planFlags) commands(key fit.Key, r fit.Run) runJSON {
	j := runJSON{Sizes: r.Sizes, Env: map[string]string{}}
	name := fmt.Sprintf("%s-%dn-%dr-default", key.Coll, key.Nodes, key.Ranks)
	if !r.Default {
		j.Algorithm, j.Protocol, j.Channels = r.Config.Algo.String(), r.Config.Proto.String(), r.Config.Channels
		name = fmt.Sprintf("%s-%dn-%dr-%s-%s", key.Coll, key.Nodes, key.Ranks, j.Algorithm, j.Protocol)
		if j.Channels > 0 {
			name += fmt.Sprintf("-%dch", j.Channels)
		}
		j.Env = f.tuned(name)
		j.Commands = []string{fmt.Sprintf("echo %s > %s.csv", fit.Row{Key: key, Config: r.Config, Bytes: nccl.Range{Max: r.Sizes[len(r.Sizes)-1]}}, name)}
	}
	j.Commands = append(j.Commands, f.perf(key, j.Env, r.Sizes, name)...)
	return j
}

// tuned is the environment of runs that our library decides about. It says what it decided when it sees a size first, in the
// warm-up: NCCL's own log of every call would cost time in those that count.
func (f *planFlags) tuned(name string) map[string]string {
	library, err := f.library.Find()
	if f.library.Path == "" && err != nil {
		library = cli.LibraryName // where NCCL looks for it
	}
	return map[string]string{
		"NCCL_TUNER_PLUGIN": library, tuner.EnvConfigFile: name + ".csv", tuner.EnvLog: "decisions",
		"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV",
	}
}

// perf starts nccl-tests once for each stretch of sizes. No two logs are the same, or import would read one of them only.
func (f *planFlags) perf(key fit.Key, env map[string]string, sizes []uint64, name string) (commands []string) {
	launch, gpus := f.launch, 1
	switch {
	case launch == "" && key.Nodes == 1:
		gpus = key.Ranks
	case launch == "":
		launch = fmt.Sprintf("mpirun -np %d", key.Ranks)
	}
	words := []string{}
	if launch != "" {
		words = append(words, launch)
	}
	if len(env) > 0 {
		words = append(words, "env")
		for _, name := range slices.Sorted(maps.Keys(env)) {
			words = append(words, name+"="+env[name])
		}
	}
	words = append(words, perfPrograms[key.Coll])
	commands = []string{fmt.Sprintf("echo '# %s' > %s.log", name, name)}
	for _, s := range steps(sizes, trimUnit(key)) {
		commands = append(commands, fmt.Sprintf("%s -b %d -e %d%s -g %d >> %s.log 2>&1", strings.Join(words, " "), s.from, s.to, s.by, gpus, name))
	}
	return commands
}

// trimUnit is what nccl-tests trims sizes to a multiple of: an element, or where each rank has a part of the data 16 bytes
// a rank (getCollByteCount in src/all_gather.cu and src/reduce_scatter.cu, 2.0 to 2.18).
func trimUnit(key fit.Key) uint64 {
	if key.Coll == nccl.CollAllGather || key.Coll == nccl.CollReduceScatter {
		return 16 * uint64(key.Ranks)
	}
	return 4
}

// step is what nccl-tests steps through: -b, -e and -f, which is empty for one
// size.
type step struct {
	from, to uint64
	by       string
}

// steps covers sizes with few stretches of a constant whole factor: from the least one, the factor that
// reaches most. nccl-tests multiplies untrimmed sizes, and prints them trimmed.
func steps(sizes []uint64, unit uint64) (all []step) {
	left := slices.Clone(sizes)
	for len(left) > 0 {
		s, reached := step{from: roundest(left[0], left[0]+unit-1)}, left[:1]
		s.to = s.from
		for _, b := range left[1:] {
			for _, factor := range []uint64{b / left[0], b/left[0] + 1} { // trimming changes it
				if factor < 2 || factor > math.MaxInt32 {
					continue
				}
				if from, all := stretch(left, factor, unit); len(all) > len(reached) {
					s, reached = step{from: from, to: from, by: fmt.Sprintf(" -f %d", factor)}, all
					for range all[1:] {
						s.to *= factor
					}
				}
			}
		}
		all = append(all, s)
		left = slices.DeleteFunc(slices.Clone(left), func(b uint64) bool { return slices.Contains(reached, b) })
	}
	return all
}

// stretch is how far a factor reaches from the first size, and where it begins: at a size that is trimmed to that one, and
// whose multiples are trimmed to the others.
func stretch(sizes []uint64, factor, unit uint64) (from uint64, reached []uint64) {
	low, high := sizes[0], sizes[0]+unit-1
	reached = sizes[:1:1]
	for power := factor; high <= math.MaxUint64/factor/power; power *= factor {
		i, _ := slices.BinarySearch(sizes, low*power-min(low*power, unit-1))
		if i == len(sizes) {
			break
		}
		b := sizes[i]
		first, last := max(low, (b+power-1)/power), min(high, (b+unit-1)/power)
		if first > last {
			break
		}
		low, high, reached = first, last, append(reached, b)
	}
	return roundest(low, high), reached
}

// roundest is the number of a range that the highest power of two divides.
func roundest(low, high uint64) uint64 {
	for zeros := 63; zeros > 0; zeros-- {
		if n := high >> zeros << zeros; n >= low && n > 0 {
			return n
		}
	}
	return low
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
		out.WriteString("# tunefit fit makes a policy of what was measured; tunefit plan --verify first measures once more what that would choose\n")
	default:
		out.WriteString("# then import the logs and plan again with the sweep\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (p *planJSON) write(out *strings.Builder) {
	fmt.Fprintf(out, "# %s on %s, %s measured\n", p.Collective, grid.Shape{Nodes: p.Nodes, Ranks: p.Ranks}, cli.CountOf(p.Measured, "configuration"))
	if p.Done {
		fmt.Fprintf(out, "# done: %s\n", p.Why)
	} else {
		fmt.Fprintf(out, "# next %s: %s\n", cli.CountOf(len(p.Runs), "run"), p.Why)
	}
	if p.Edge > 0 {
		fmt.Fprintf(out, "# %d channels win at some sizes and are at the end of those tried: widen --channels\n", p.Edge)
	}
	for _, m := range p.Missed {
		fmt.Fprintf(out, "# could be missed: %s at %s, up to %.0f %% faster\n", m.Configuration, grid.SizeRange(m.Sizes[0], m.Sizes[len(m.Sizes)-1]), 100*m.Gain)
	}
	for _, r := range p.Runs {
		for _, c := range r.Commands {
			fmt.Fprintln(out, c)
		}
	}
}
