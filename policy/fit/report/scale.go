package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// CarriedOver says which rows are for more nodes than were measured, one line for each group that they come from.
func CarriedOver(rows []fit.Row) (lines []string) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r fit.Row) bool { return r.From == 0 })
	for len(rows) > 0 {
		from := rows[0].Group()
		n := slices.IndexFunc(rows, func(r fit.Row) bool { return r.Group() != from })
		if n < 0 {
			n = len(rows)
		}
		to := rows[0].Comm.String()
		if last := rows[n-1].Comm; last != rows[0].Comm {
			to += " to " + last.String()
		}
		lines = append(lines, fmt.Sprintf("%s on %s: not measured: %s carried over from %s, where each saves more "+
			"than %.0f %% of the default's time", from.Coll, to, wording.Plural(n, "row"), from.Comm,
			100*fit.CarriedGain))
		rows = rows[n:]
	}
	return lines
}

// scaleLine is a line of the table of differences between numbers of nodes.
type scaleLine struct {
	Key          fit.Key
	Fewer, Sizes string
	There, Here  string
	Slower       float64
}

// mostScaleLines bounds the table; the worst differences are in it.
const mostScaleLines = 40

func scaleLines(set *fit.Set) (lines []scaleLine) {
	name := func(c nccl.Config) string {
		if !c.Known() {
			return "NCCL’s default"
		}
		return c.String()
	}
	all := set.ScaleDifferences()
	slices.SortStableFunc(all, func(a, b fit.ScaleDifference) int { return cmp.Compare(b.Slower, a.Slower) })
	for _, d := range all[:min(mostScaleLines, len(all))] {
		lines = append(lines, scaleLine{d.Key, d.Fewer.String(), d.Bytes.String(), name(d.There), name(d.Here),
			d.Slower})
	}
	return lines
}
