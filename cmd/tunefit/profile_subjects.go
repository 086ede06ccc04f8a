package main

import (
	"cmp"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// worthMeasuring is the least share of a job's communication that a collective's sizes within an octave need in order
// to be measured.
const worthMeasuring = 0.01

// mostOwnSizes is how many sizes of a collective on a communicator are measured as the job calls them. nccl-tests steps
// through doublings in one start, and needs one start for each other size.
const mostOwnSizes = 16

// subjects are worth measuring for a job: collectives on communicators, the heaviest first. Their sizes are those that
// the job calls, or every doubling around them if they are more than mostOwnSizes.
type subjects struct {
	keys  []fit.Key
	sizes map[fit.Key][]uint64
}

// subjectsOf reads a profile. It takes the collectives and communicators named, or all if none are.
func subjectsOf(in *cli.Inputs, file string, named *commspec.Flags, notes io.Writer) (s subjects, err error) {
	p, err := readProfile(in, file)
	if err != nil {
		return s, err
	}
	colls, err := named.ParseColls()
	if err != nil {
		return s, err
	}
	comms, err := named.ParseComms(nil)
	if err != nil {
		return s, err
	}
	groups, total := p.Groups(), p.Total()
	weights, light := map[fit.Key]float64{}, 0.0
	s.sizes = map[fit.Key][]uint64{}
	for _, g := range groups {
		key := fit.Key{Coll: g.Coll, Comm: g.Comm}
		switch {
		case len(named.Colls) > 0 && !slices.Contains(colls, g.Coll), len(named.Comms) > 0 &&
			!slices.Contains(comms, g.Comm):
			continue
		case total > 0 && g.Weight < worthMeasuring*total:
			light += g.Weight
			continue
		}
		if weights[key] += g.Weight; s.sizes[key] == nil {
			s.keys = append(s.keys, key)
		}
		for _, e := range g.Entries {
			// nccl-tests measures no less than its unit.
			unit := perfrun.TrimUnit(key)
			s.sizes[key] = append(s.sizes[key], max(e.Bytes/unit, 1)*unit)
		}
	}
	if len(s.keys) == 0 {
		return s, cli.Usagef("--profile %s: no call of a known size is in it%s", file, namedToo(named))
	}
	for key, sizes := range s.sizes {
		slices.Sort(sizes)
		if s.sizes[key] = slices.Compact(sizes); len(s.sizes[key]) > mostOwnSizes {
			s.sizes[key] = doublings(sizes[0], sizes[len(sizes)-1])
		}
	}
	slices.SortStableFunc(s.keys, func(a, b fit.Key) int { return cmp.Compare(weights[b], weights[a]) })
	if p.Scale().Weight == profile.ByNothing {
		fmt.Fprintf(notes, "note: %s does not tell how often calls are made: all are measured, in no order\n", file)
	} else if light > 0 {
		fmt.Fprintf(notes,
			"note: of %s, %s of the job's communication are left out: sizes and collectives with less than 1 %% "+
				"each\n", file, cli.Percent(light/total))
	}
	return s, nil
}

func namedToo(named *commspec.Flags) string {
	if len(named.Colls)+len(named.Comms) > 0 {
		return " of the collectives and communicators that --coll and --comm name"
	}
	return ""
}

// union is every doubling around all sizes.
func (s *subjects) union() (sizes []uint64) {
	for _, of := range s.sizes {
		sizes = append(sizes, doublings(of[0], of[len(of)-1])...)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
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
