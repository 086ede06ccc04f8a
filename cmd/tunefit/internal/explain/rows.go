package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// maxNearest is how many rows are shown without --all.
const maxNearest = 8

// writeRows prints what became of the rows: the nearest first and the number of the others, or all in the file's order.
func (p *Path) writeRows(b *bytes.Buffer, all bool) {
	if p.Files.Policy == "" {
		return
	}
	fmt.Fprintf(b, "\npolicy %s, %s\n", p.Files.Policy, wording.Plural(len(p.Rows), "row"))
	if all {
		for _, t := range p.Rows {
			p.writeRow(b, t)
		}
	} else {
		p.writeNearest(b)
	}
	if p.Rule < 0 {
		fmt.Fprintln(b, "  no row decides")
	}
}

func (p *Path) writeNearest(b *bytes.Buffer) {
	tried, later := p.Rows, []policy.Tried(nil)
	if p.Rule >= 0 {
		tried, later = p.Rows[:p.Rule], p.Rows[p.Rule+1:]
	}
	others := 0
	var near []policy.Tried
	for _, t := range tried {
		if otherColl(t) {
			others++
		} else {
			near = append(near, t)
		}
	}
	slices.SortStableFunc(near, func(x, y policy.Tried) int {
		octaves := func(t policy.Tried) (sum float64) {
			for _, m := range t.Misses {
				sum += m.Octaves
			}
			return sum
		}
		return cmp.Or(cmp.Compare(len(x.Misses), len(y.Misses)), cmp.Compare(octaves(x), octaves(y)))
	})
	shown := min(len(near), maxNearest)
	for _, t := range near[:shown] {
		p.writeRow(b, t)
	}
	if more := len(near) - shown; more > 0 {
		fmt.Fprintf(b, "  and %s (--all shows each)\n", wording.Plural(more, "more row"))
	}
	if others > 0 {
		fmt.Fprintf(b, "  %s for other collectives\n", wording.Plural(others, "row"))
	}
	if p.Rule < 0 {
		return
	}
	p.writeRow(b, p.Rows[p.Rule])
	var too []string
	for _, t := range later {
		if t.Status == policy.RowLater {
			too = append(too, p.place(t.Rule))
		}
	}
	if len(too) > 0 {
		fmt.Fprintf(b, "  later rows that match, too, and come too late: %s\n", fewOf(too))
	}
}

func otherColl(t policy.Tried) bool { return len(t.Misses) > 0 && t.Misses[0].Column == "collective" }

// writeRow prints what became of a row. For the row that decides it adds the row's text.
func (p *Path) writeRow(b *bytes.Buffer, t policy.Tried) {
	rule := &p.Engine.Policy.Rules[t.Rule]
	fmt.Fprintf(b, "  %s  %s\n", p.place(t.Rule), p.reason(t))
	if t.Status != policy.RowDecides {
		return
	}
	for line := range strings.Lines(strings.TrimSpace(p.Sheet.Row(rule.Line))) {
		fmt.Fprintf(b, "    %s\n", strings.TrimRight(line, "\r\n"))
	}
	if rule.When != nil {
		fmt.Fprintf(b, "    its condition holds: %s\n", valuesText(t.Values))
	}
	if rule.Channels > 0 && p.Algo >= 0 && p.Channels == 0 {
		fmt.Fprintf(b,
			"    its channel count is left to NCCL %s, which does not check it for this collective and algorithm\n",
			p.Outcome.Release)
	}
}

// reason says why a row does not decide.
func (p *Path) reason(t policy.Tried) string {
	rule := &p.Engine.Policy.Rules[t.Rule]
	switch t.Status {
	case policy.RowDiffers:
		texts := make([]string, len(t.Misses))
		for i, m := range t.Misses {
			texts[i] = missText(m)
		}
		return "is for " + strings.Join(texts, "; ")
	case policy.RowWhenFalse:
		return fmt.Sprintf("its condition does not hold: %s, with %s", wording.Line(rule.When.String()),
			valuesText(t.Values))
	case policy.RowWhenUnknown:
		return fmt.Sprintf("its condition mentions what is not known here: %s, with %s",
			wording.Line(rule.When.String()), valuesText(t.Values))
	case policy.RowWhenFails:
		what, _, _ := strings.Cut(t.Err.Error(), "\n")
		return fmt.Sprintf("its condition cannot be computed: %s: %s, with %s", strings.TrimPrefix(what, "when: "),
			wording.Line(rule.When.String()), valuesText(t.Values))
	case policy.RowUnavailable:
		return fmt.Sprintf("asks for %s, which is not available here", rule.Asks())
	case policy.RowDecides:
		return "decides: " + rule.Asks()
	}
	return t.Status.String()
}

func missText(m policy.Miss) string {
	switch m.Column {
	case "collective":
		return m.Wants
	case "size":
		return fmt.Sprintf("%s, not %s", m.Wants, m.Has)
	case "size_per_rank":
		return fmt.Sprintf("%s per rank, not %s", m.Wants, m.Has)
	}
	return fmt.Sprintf("%s %s, not %s", m.Column, m.Wants, m.Has)
}

func valuesText(values []policy.Value) string {
	texts := make([]string, len(values))
	for i, v := range values {
		switch value := v.Value.(type) {
		case nil:
			texts[i] = v.Name + " not known"
		case float64:
			texts[i] = v.Name + " = " + strconv.FormatFloat(value, 'f', -1, 64)
		default:
			texts[i] = fmt.Sprintf("%s = %v", v.Name, value)
		}
	}
	return strings.Join(texts, ", ")
}
