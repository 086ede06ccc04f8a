package command

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// otherRuns returns a pool for what another pool leaves out: eager runs where that keeps graphs, and graphs where it
// keeps eager runs. Where it keeps anything else there is none.
func otherRuns(pool *fit.Pool) []*fit.Pool {
	other := fit.NewPool()
	other.MadeWith, other.Offers = pool.MadeWith, pool.Offers
	switch pool.Runs {
	case "graph":
		other.Runs = "eager"
	case "eager":
		other.Runs = "graph"
	default:
		return nil
	}
	return []*fit.Pool{other}
}

// leastApart is the factor in time from which on another choice is worth a line.
const leastApart = 1.03

// chosenApart says where the rows that the other runs of the same machine make choose what takes longer than the choice
// of the rows, in the set of these, a line for each range of sizes.
func chosenApart(set *fit.Set, others *fit.Pool, rows []fit.Row) (lines []string, err error) {
	other := others.Set()
	if len(other.Groups) == 0 || unlike(other) != nil { // which of them is nobody's to say
		return nil, nil
	}
	file, _ := fit.Fit(other, fit.Options{})
	m, err := model.Compile("the other runs", file)
	if err != nil {
		return nil, err
	}
	theirs := fit.Rows(m)
	kept, left := "in graphs", "in eager runs"
	if others.Runs == "graph" {
		kept, left = left, kept
	}
	for _, g := range set.Groups {
		of := other.Of(g.Key)
		if of == nil {
			continue
		}
		var first, last uint64
		said, worst := "", 0.0
		end := func() {
			if said != "" {
				lines = append(lines, fmt.Sprintf("%s at %s: %s, which takes up to %.2f times as long %s", g.Key,
					cli.SizeRange(first, last), said, worst, kept))
			}
		}
		for _, d := range g.Default {
			if !slices.ContainsFunc(of.Default, func(o fit.Point) bool { return o.Bytes == d.Bytes }) {
				continue
			}
			text := ""
			mine, their := chosenBy(rows, g, d), chosenBy(theirs, g, d)
			factor := their.Micros / mine.Micros
			if factor > leastApart && mine.Micros > 0 {
				text = fmt.Sprintf("%s %s, %s %s", inWords(mine, d), kept, inWords(their, d), left)
			}
			if text != said {
				end()
				first, said, worst = d.Bytes, text, 0
			}
			last, worst = d.Bytes, max(worst, factor)
		}
		end()
	}
	return lines, nil
}

// chosenBy returns the point that rows choose in a group at the size of a default, which is that where no row decides.
// The time is 0 of a choice that the group does not have there.
func chosenBy(rows []fit.Row, g *fit.Group, byDefault fit.Point) fit.Point {
	call := nccl.Call{Coll: g.Coll, Bytes: byDefault.Bytes}
	c, ok := fit.DecideByRows(rows)(g.Comm, call, nccl.Everything()) // it was measured, so NCCL offers it
	if !ok {
		return byDefault
	}
	for _, p := range g.Points {
		if p.Config == c && p.Bytes == byDefault.Bytes {
			return p
		}
	}
	return fit.Point{Config: c, Bytes: byDefault.Bytes}
}

func inWords(p, byDefault fit.Point) string {
	if p.Config == byDefault.Config {
		return "NCCL's default"
	}
	return p.Config.String()
}
