package command

import (
	"cmp"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// worthMeasuring is the least share of a job's communication that a collective's sizes within an octave need in order
// to be measured.
const worthMeasuring = 0.01

// subjectsOf returns what is worth measuring for the job of a profile: collectives on communicators, the heaviest
// first, and every doubling around their sizes. It takes the collectives and communicators named, or all if none are.
func subjectsOf(in *cli.Inputs, file string, named *cli.CallFlags, notes io.Writer) (keys []fit.Key, sizes []uint64,
	err error) {
	p, err := readProfile(in, file)
	if err != nil {
		return nil, nil, err
	}
	colls, err := named.ParseColls()
	if err != nil {
		return nil, nil, err
	}
	comms, err := named.ParseComms(nil)
	if err != nil {
		return nil, nil, err
	}
	total, light := p.Total(), 0.0
	weights := map[fit.Key]float64{}
	ends := map[fit.Key]nccl.Range{}
	for _, g := range p.SizeBins() {
		key := fit.Key{Coll: g.Coll, Comm: g.Comm}
		switch {
		case g.Nodes == 0: // a log did not tell them
			continue
		case len(named.Colls) > 0 && !slices.Contains(colls, g.Coll), len(named.Comms) > 0 &&
			!slices.Contains(comms, g.Comm):
			continue
		case total > 0 && g.Weight < worthMeasuring*total:
			light += g.Weight
			continue
		}
		weights[key] += g.Weight
		least, most := g.Sizes()
		unit := perfrun.TrimUnit(key) // nccl-tests measures no less
		r := nccl.Range{Min: max(least/unit, 1) * unit, Max: max(most/unit, 1) * unit}
		if known, seen := ends[key]; seen {
			r = nccl.Range{Min: min(known.Min, r.Min), Max: max(known.Max, r.Max)}
		} else {
			keys = append(keys, key)
		}
		ends[key] = r
	}
	if len(keys) == 0 {
		return nil, nil, cli.Usagef("--profile %s: no call of a known size is in it%s", file, namedToo(named))
	}
	for _, r := range ends {
		sizes = append(sizes, doublings(r.Min, r.Max)...)
	}
	slices.Sort(sizes)
	slices.SortStableFunc(keys, func(a, b fit.Key) int { return cmp.Compare(weights[b], weights[a]) })
	if p.Scale().Weight == profile.ByNothing {
		fmt.Fprintf(notes, "note: %s does not tell how often calls are made: all are measured, in no order\n", file)
	} else if light > 0 {
		fmt.Fprintf(notes,
			"note: of %s, %s of the job's communication are left out: sizes and collectives with less than 1 %% "+
				"each\n", file, cli.Percent(light/total))
	}
	return keys, slices.Compact(sizes), nil
}

func namedToo(named *cli.CallFlags) string {
	if len(named.Colls)+len(named.Comms) > 0 {
		return " of the collectives and communicators that --coll and --comm name"
	}
	return ""
}

// doublings are the powers of 2 from the one at or below least up to the one at or above most, nccl-tests' own sizes.
func doublings(least, most uint64) (sizes []uint64) {
	for n := uint64(1) << (bits.Len64(least) - 1); ; n *= 2 {
		sizes = append(sizes, n)
		if n >= most || n > nccl.Inf/4 {
			return sizes
		}
	}
}
