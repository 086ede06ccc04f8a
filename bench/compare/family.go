package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// alpha is the share of the verdicts of a table that may be wrong.
const alpha = 0.05

// judge gives all ratios of a table their probability, interval and verdict.
//
// Of 20 sizes at which nothing changed, one would be called different at 5 %. Proven is what Benjamini and Hochberg
// (1995) leave: of the verdicts of a table, a share of alpha is expected to be wrong, and where nothing changed at all,
// one table in 1/alpha has a verdict. An interval is that of its ratio alone: without a verdict it may leave out 1.
func judge(all []*Estimate) (tested int) {
	known := slices.DeleteFunc(slices.Clone(all), func(e *Estimate) bool { return e.test == nil })
	m := float64(len(known))
	for _, e := range known {
		e.P = stats.Optional(e.test.P())
	}
	slices.SortStableFunc(known, func(a, b *Estimate) int { return cmp.Compare(a.P, b.P) })
	proven := 0
	for i, e := range known {
		if float64(e.P) <= alpha*float64(i+1)/m {
			proven = i + 1
		}
	}
	least := stats.Optional(1)
	for i, e := range slices.Backward(known) {
		half := e.test.Half()
		// The test is about means, the ratio is of medians: where they disagree, both count.
		e.Low = stats.Optional(min(math.Exp(e.test.Mean-half), e.Ratio))
		e.High = stats.Optional(max(math.Exp(e.test.Mean+half), e.Ratio))
		least = min(least, e.P*stats.Optional(m)/stats.Optional(i+1))
		e.P = least
		switch {
		case i < proven && e.High < 1:
			e.Verdict = Faster
		case i < proven && e.Low > 1:
			e.Verdict = Slower
		default:
			e.Verdict = Unproven
		}
	}
	return len(known)
}
