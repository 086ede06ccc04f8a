package lint

import (
	"bytes"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// ignoreWord opens the list of rules to silence. What follows " -- " is the reason.
const ignoreWord = "tunefit:ignore"

// ignore drops findings that the file silences, and reports silences that it cannot follow.
func (c *check) ignore(text []byte) {
	if !bytes.Contains(text, []byte(ignoreWord)) {
		return
	}
	type silenced struct {
		line int // of the row
		rule string
	}
	said := map[silenced]bool{}
	add := func(at, row int, rules []string) {
		for _, rule := range rules {
			said[silenced{row, rule}] = true
			if _, known := RuleNamed(rule); !known {
				c.report(badIgnore, at, "", "no rule is called %q (%sallowed: see tunefit check --rules)", rule,
					wording.DidYouMean(rule, RuleNames()))
			}
		}
	}
	next := 0 // the row that follows
	for i, line := range bytes.Split(text, []byte("\n")) {
		for next < len(c.rows) && c.rows[next].Line <= i+1 {
			next++
		}
		words, isComment := strings.CutPrefix(strings.TrimPrefix(string(line), "\ufeff"), "#")
		switch rules := ignored(words); {
		case !isComment || len(rules) == 0:
		case next == len(c.rows):
			c.report(badIgnore, i+1, "", "no row follows")
		default:
			add(i+1, c.rows[next].Line, rules)
		}
	}
	for _, r := range c.rows {
		add(r.Line, r.Line, ignored(c.sheet.Field(r.Line, "comment")))
	}
	c.findings = slices.DeleteFunc(c.findings, func(f Finding) bool { return said[silenced{f.Line, f.Rule}] })
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
