package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/grid"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
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
	Algorithm string            `json:"algorithm,omitempty"` // none: the default
	Protocol  string            `json:"protocol,omitempty"`
	Channels  int               `json:"channels,omitempty"` // none: NCCL's own
	Sizes     []uint64          `json:"sizes"`
	Env       map[string]string `json:"env"`
	Commands  []string          `json:"commands"`
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
// nccl-tests can step through.
func (f *planFlags) commands(key fit.Key, r fit.Run) runJSON {
	j := runJSON{Sizes: r.Sizes, Env: map[string]string{}}
	log := fmt.Sprintf("%s-%dn-%dr-default.log", key.Coll, key.Nodes, key.Ranks)
	var env []string
	set := func(name, value string) {
		j.Env[name] = value
		env = append(env, name+"="+value)
	}
	if !r.Default {
		j.Algorithm, j.Protocol, j.Channels = r.Config.Algo.String(), r.Config.Proto.String(), r.Config.Channels
		set("NCCL_ALGO", strings.ToUpper(strings.ReplaceAll(j.Algorithm, "_", "")))
		set("NCCL_PROTO", strings.ToUpper(j.Protocol))
		log = fmt.Sprintf("%s-%dn-%dr-%s-%s.log", key.Coll, key.Nodes, key.Ranks, j.Algorithm, j.Protocol)
		if r.Config.Channels > 0 {
			set("NCCL_MIN_NCHANNELS", strconv.Itoa(j.Channels))
			set("NCCL_MAX_NCHANNELS", strconv.Itoa(j.Channels))
			log = strings.TrimSuffix(log, ".log") + fmt.Sprintf("-%dch.log", j.Channels)
		}
	}
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
		words = append(append(words, "env"), env...)
	}
	for i, s := range steps(r.Sizes) {
		redirect := ">"
		if i > 0 {
			redirect = ">>"
		}
		j.Commands = append(j.Commands, fmt.Sprintf("%s -b %d -e %d%s -g %d %s %s 2>&1",
			strings.Join(append(slices.Clone(words), perfPrograms[key.Coll]), " "), s.from, s.to, s.by, gpus, redirect, log))
	}
	return j
}

// step is what nccl-tests steps through: -b, -e and -f, which is empty for one
// size.
type step struct {
	from, to uint64
	by       string
}

// steps cuts sizes into as few stretches of a constant whole factor as a walk
// from the least finds.
func steps(sizes []uint64) (all []step) {
	for i := 0; i < len(sizes); {
		j, by := i, ""
		if i+1 < len(sizes) && sizes[i+1]%sizes[i] == 0 && sizes[i+1]/sizes[i] <= math.MaxInt32 {
			factor := sizes[i+1] / sizes[i]
			for j+1 < len(sizes) && sizes[j+1] == sizes[j]*factor {
				j++
			}
			by = fmt.Sprintf(" -f %d", factor)
		}
		all = append(all, step{sizes[i], sizes[j], by})
		i = j + 1
	}
	return all
}

func (p planJSON) write(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s on %s, %s measured\n", p.Collective, grid.Shape{Nodes: p.Nodes, Ranks: p.Ranks}, cli.CountOf(p.Measured, "configuration"))
	if p.Done {
		fmt.Fprintf(&out, "# done: %s\n", p.Why)
	} else {
		fmt.Fprintf(&out, "# next %s: %s\n", cli.CountOf(len(p.Runs), "run"), p.Why)
	}
	if p.Edge > 0 {
		fmt.Fprintf(&out, "# %d channels win at some sizes and are at the end of those tried: widen --channels\n", p.Edge)
	}
	for _, m := range p.Missed {
		fmt.Fprintf(&out, "# could be missed: %s at %s, up to %.0f %% faster\n", m.Configuration, grid.SizeRange(m.Sizes[0], m.Sizes[len(m.Sizes)-1]), 100*m.Gain)
	}
	if p.Done {
		out.WriteString("# tunefit fit makes a policy of what was measured\n")
	}
	for _, r := range p.Runs {
		for _, c := range r.Commands {
			fmt.Fprintln(&out, c)
		}
	}
	if !p.Done {
		out.WriteString("# then import the logs and plan again; --skip leaves out what NCCL refuses to run\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}
