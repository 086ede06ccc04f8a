package perfrun

import (
	"math"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// TrimUnit is what nccl-tests trims sizes to a multiple of.
func TrimUnit(key fit.Key) uint64 { return bench.TrimUnit(key.Coll, key.Ranks) }

// Step is the range of sizes of one nccl-tests process, from the first to the last, each Factor times the one before;
// 0: one size only.
type Step struct{ From, To, Factor uint64 }

// Args returns the range as options of nccl-tests.
func (s Step) Args() []string {
	args := []string{"-b", strconv.FormatUint(s.From, 10), "-e", strconv.FormatUint(s.To, 10)}
	if s.Factor > 0 {
		args = append(args, "-f", strconv.FormatUint(s.Factor, 10))
	}
	return args
}

// Sizes returns the sizes that the range measures, trimmed to a unit.
func (s Step) Sizes(unit uint64) (sizes []uint64) {
	for b := s.From; b <= s.To; b *= s.Factor {
		sizes = append(sizes, b/unit*unit)
		if s.Factor < 2 || b > math.MaxUint64/s.Factor {
			break
		}
	}
	return sizes
}

// Steps covers sizes with few ranges of a constant whole factor, each with the factor that covers most sizes from the
// smallest one left. nccl-tests multiplies untrimmed sizes, and prints them trimmed.
func Steps(sizes []uint64, unit uint64) (all []Step) {
	left := slices.Clone(sizes)
	for len(left) > 0 {
		s, reached := Step{From: roundest(left[0], left[0]+unit-1)}, left[:1]
		s.To = s.From
		for _, b := range left[1:] {
			for _, factor := range []uint64{b / left[0], b/left[0] + 1} { // trimming changes it
				if factor < 2 || factor > math.MaxInt32 {
					continue
				}
				if from, all := stretch(left, factor, unit); len(all) > len(reached) {
					s, reached = Step{from, from, factor}, all
					for range all[1:] {
						s.To *= factor
					}
				}
			}
		}
		all = append(all, s)
		left = slices.DeleteFunc(slices.Clone(left), func(b uint64) bool { return slices.Contains(reached, b) })
	}
	return all
}

// PassSteps covers sizes with ranges of at least two, since the first size of a range tells where a pass begins. A size
// that is left alone comes with half of it.
func PassSteps(sizes []uint64, unit uint64) []Step {
	all := Steps(sizes, unit)
	for i, s := range all {
		if half := s.From / 2; s.Factor == 0 && half/unit > 0 && half/unit < s.From/unit {
			all[i] = Step{half, half * 2, 2}
		}
	}
	return all
}

// stretch returns which sizes a factor covers from the first, and the untrimmed size to begin with: it is trimmed to
// the first one, and its multiples are trimmed to the others.
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

// roundest returns the number of a range that is divisible by the highest power of two.
func roundest(low, high uint64) uint64 {
	for zeros := 63; zeros > 0; zeros-- {
		if n := high >> zeros << zeros; n >= low && n > 0 {
			return n
		}
	}
	return low
}
