package command

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// readSweeps pools the measurements of all files and lists why some times were rejected while reading, each reason with
// the place of the first. anyway takes files of which too little can be read, too. Those of found that are no
// measurements are left out. The pools of also get all of it, too.
func readSweeps(pool *fit.Pool, inputs *cli.Inputs, cmd *cobra.Command, files []string, found map[string]bool,
	anyway bool, also ...*fit.Pool) (*fit.Set, []model.Source, []fit.Refusal, error) {
	var sources []model.Source
	var rejected []fit.Refusal
	known := map[string]int{} // in rejected, by reason
	in := newReader(inputs, cmd, files, found, anyway)
	for _, name := range files {
		r, digest := in.read(name)
		if r == nil {
			continue
		}
		for _, p := range append(also, pool) {
			p.Begin(name)
			for i := range r.Samples {
				p.Add(&r.Samples[i])
			}
			for _, m := range slices.Concat(r.Failed, r.NotOffered) {
				p.Fail(&m)
			}
		}
		in.notes = append(in.notes, r.Notes...)
		for _, rej := range r.Rejected {
			i, seen := known[rej.Reason]
			if !seen {
				i = len(rejected)
				known[rej.Reason] = i
				rejected = append(rejected, fit.Refusal{Reason: rej.Reason + " (" + rej.First(r.File) + ")"})
			}
			rejected[i].Rows += rej.Count
		}
		sources = append(sources, model.Source{Name: filepath.Base(name), SHA256: digest, Rows: len(r.Samples)})
	}
	if err := in.finish(cmd.ErrOrStderr()); err != nil {
		return nil, nil, nil, err
	}
	slices.SortFunc(rejected, func(a, b fit.Refusal) int { return strings.Compare(a.Reason, b.Reason) })
	return pool.Set(), sources, rejected, nil
}

// tuningFunc tells NCCL's estimates for a communicator, with the releases of Set.NCCL; nil: they are not known.
type tuningFunc func(comm nccl.Comm, with string) *tuning.Tuning

// tuningOn tells the estimates on the machine of a topology file. They are not known for RCCL, nor for communicators of
// other nodes.
func tuningOn(env ncclchoice.Env, file string) tuningFunc {
	machines := map[nccl.Version]*ncclchoice.Model{}
	return func(comm nccl.Comm, with string) *tuning.Tuning {
		_, release, ok := nccl.MeasuredWith(with)
		if with != "" && !ok {
			return nil
		}
		if _, seen := machines[release]; !seen {
			from := ncclchoice.Flags{Env: env, Topo: file}
			if ok {
				from.NCCL = release.String()
			}
			machines[release], _ = from.Read() // nil: ask.ReadMachine says what is wrong with it
		}
		machine := machines[release]
		if machine == nil {
			return nil
		}
		t, err := machine.Of(comm)
		if err != nil || t.Comm != comm {
			return nil
		}
		return t
	}
}

// offers tells what NCCL offers, as far as that is known.
func (on tuningFunc) offers(key fit.Key, cell nccl.Cell, with string) bool {
	t := on(key.Comm, with)
	const anySize = 1 << 20 // what there is does not depend on it
	return t == nil || t.Table(key.Coll, anySize, 1)[cell.Algo][cell.Proto] >= 0
}

// Limits of what reached says.
const (
	saturated = 9  // times the latency: the size takes so long to send
	limited   = .5 // of what NCCL counts on. Of the machines that were measured, the worst reach 0.7
)

// reached says which bus bandwidth the largest sizes have, for each collective and communicator whose default was
// measured there, and what NCCL counts on for the links of its rings, or of NVLS where that is the fastest.
func (on tuningFunc) reached(set *fit.Set) (lines []string) {
	for _, g := range set.Groups {
		t := on(g.Comm, set.NCCL)
		under := slices.ContainsFunc(slices.Collect(maps.Keys(g.Under)),
			func(c bench.Conditions) bool { return c.Variables != "" }) // they may take links away
		if t == nil || under {
			continue
		}
		bandwidth := func(a nccl.Algo) float64 { return float64(t.Bandwidths[g.Coll][a][nccl.ProtoSimple]) }
		allowed, of := bandwidth(nccl.AlgoRing), "NCCL's rings"
		enough := saturated * float64(t.Latencies[g.Coll][nccl.AlgoRing][nccl.ProtoSimple]) * allowed * 1e3
		var best fit.Point
		rate := func(p fit.Point) float64 { return float64(p.Bytes) / 1e3 / p.Micros }
		for _, p := range slices.Concat(g.Default, g.Points) {
			large := float64(p.Bytes) >= enough &&
				slices.ContainsFunc(g.Default, func(own fit.Point) bool { return own.Bytes == p.Bytes })
			if large && (best.Bytes == 0 || rate(p) > rate(best)) {
				best = p
			}
		}
		if best.Bytes == 0 || allowed == 0 {
			continue
		}
		if nvls := bandwidth(nccl.AlgoNVLS); best.Config.Algo == nccl.AlgoNVLS && nvls > allowed {
			allowed, of = nvls, "NVLS"
		}
		factor := g.Coll.BusFactor(float64(g.Ranks))
		line := fmt.Sprintf("%s: %s GB/s at %s; the links of %s allow %s", g.Key, gbps(rate(best)*factor),
			nccl.FormatBytes(best.Bytes), of, gbps(allowed*factor))
		if rate(best) < limited*allowed {
			line += ": not the choice of an algorithm limits it; see tunefit doctor --machine"
		}
		lines = append(lines, line)
	}
	return lines
}
