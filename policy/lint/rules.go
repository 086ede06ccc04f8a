package lint

import (
	_ "embed"
	"slices"
	"strings"
)

// RuleText is one thing to look for.
type RuleText struct {
	Name     string
	Severity Severity
	Summary  string // a few words
	Explain  string // what it means and what to do
}

// Invalid is the rule of what the tuner refuses.
const Invalid = "invalid"

// The texts of the rules: # NAME SEVERITY, then the summary, then what Explain says.
//
//go:embed rules.txt
var ruleTexts string

// Rules lists all rules.
var Rules = func() (all []RuleText) {
	for text := range strings.SplitSeq(strings.TrimPrefix(ruleTexts, "# "), "\n# ") {
		head, text, _ := strings.Cut(text, "\n")
		summary, explain, _ := strings.Cut(text, "\n")
		name, severity, _ := strings.Cut(head, " ")
		all = append(all, RuleText{name, severities[severity], summary, strings.TrimSpace(explain)})
	}
	return all
}()

var severities = map[string]Severity{Note.String(): Note, Warning.String(): Warning, Error.String(): Error}

// RuleNamed returns the rule of that name.
func RuleNamed(name string) (RuleText, bool) {
	i := slices.IndexFunc(Rules, func(r RuleText) bool { return r.Name == name })
	if i < 0 {
		return RuleText{}, false
	}
	return Rules[i], true
}

// RuleNames lists the names of all rules.
func RuleNames() []string {
	names := make([]string, len(Rules))
	for i, r := range Rules {
		names[i] = r.Name
	}
	return names
}
