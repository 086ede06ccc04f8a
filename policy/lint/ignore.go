package lint

import (
	"bytes"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// ignoreWord opens the list of rules to silence. What follows " -- " is the reason.
const ignoreWord = "tunefit:ignore"

// silenced is one rule that is silenced for one row.
type silenced struct {
	line int // of the row
	rule string
}

// ignore drops findings that the file silences, and reports silences in vain.
func (c *check) ignore(text []byte) {
	if !bytes.Contains(text, []byte(ignoreWord)) {
		return
	}
	said := map[silenced]int{} // by the line that says so
	var order []silenced
	add := func(at, row int, words string) {
		for _, rule := range ignored(words) {
			s := silenced{row, rule}
			if _, known := RuleNamed(rule); !known {
				c.report(badIgnore, at, "", "no rule is called %q (%sallowed: see tunefit check --rules)", rule,
					suggest.DidYouMean(rule, RuleNames()))
			} else if _, again := said[s]; !again {
				said[s] = at
				order = append(order, s)
			}
		}
	}
	next := 0 // the row that follows
	for i, line := range bytes.Split(text, []byte("\n")) {
		for next < len(c.rows) && c.rows[next].Line <= i+1 {
			next++
		}
		words, isComment := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(string(line), "\ufeff")), "#")
		switch {
		case !isComment || len(ignored(words)) == 0:
		case next == len(c.rows):
			c.report(badIgnore, i+1, "", "no row follows")
		default:
			add(i+1, c.rows[next].Line, words)
		}
	}
	for _, r := range c.rows {
		add(r.Line, r.Line, c.sheet.Field(r.Line, "comment"))
	}
	needed := map[silenced]bool{}
	left := c.findings[:0]
	for _, f := range c.findings {
		s := silenced{f.Line, f.Rule}
		if _, ok := said[s]; ok {
			needed[s] = true
			continue
		}
		left = append(left, f)
	}
	c.findings = left
	for _, s := range order {
		if !needed[s] {
			c.report(badIgnore, said[s], "", "%s finds nothing in line %d", s.rule, s.line)
		}
	}
}

// ignored lists the rules that a comment silences.
func ignored(comment string) []string {
	_, list, ok := strings.Cut(comment, ignoreWord)
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, " -- ")
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}
