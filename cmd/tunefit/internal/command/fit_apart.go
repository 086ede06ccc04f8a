package command

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// otherRuns returns a pool for what another pool leaves out: eager runs where it keeps those of graphs, and graphs where
// it keeps eager runs. Where it keeps anything else there is none.
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

// chosenApart says where rows, which are of a set, choose otherwise than the rows that the other runs of the same
// machine make, in one line for each range of sizes.
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
	for _, g := range set.Groups {
		of := other.Of(g.Key)
		if of == nil {
			continue
		}
		var first, last uint64
		said := ""
		end := func() {
			if said != "" {
				lines = append(lines, fmt.Sprintf("%s at %s: %s", g.Key, cli.SizeRange(first, last), said))
			}
		}
		for _, d := range g.Default {
			if !slices.ContainsFunc(of.Default, func(o fit.Point) bool { return o.Bytes == d.Bytes }) {
				continue
			}
			text, mine, their := "", chosenBy(rows, g.Key, d.Bytes), chosenBy(theirs, g.Key, d.Bytes)
			if others.Runs == "graph" {
				mine, their = their, mine
			}
			if mine != their {
				text = fmt.Sprintf("%s in graphs, %s in eager runs", mine, their)
			}
			if text != said {
				end()
				first, said = d.Bytes, text
			}
			last = d.Bytes
		}
		end()
	}
	return lines, nil
}

// chosenBy is what rows choose, in words.
func chosenBy(rows []fit.Row, key fit.Key, bytes uint64) string {
	if c, ok := fit.DecideByRows(rows)(key.Comm, nccl.Call{Coll: key.Coll, Bytes: bytes}, nccl.Everything()); ok {
		return c.String()
	}
	return "NCCL's choice"
}
