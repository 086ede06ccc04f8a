package lint

import (
	_ "embed"
	"slices"
	"strings"
)

// Rule is one thing to look for.
type Rule struct {
	Name     string
	Severity Severity
	Summary  string // a few words
	Explain  string // what it means and what to do
}

// Names of the rules, as files and command lines have them.
const (
	Invalid             = "invalid"
	noRows              = "no-rows"
	simulated           = "simulated"
	matchesNothing      = "matches-nothing"
	shadowed            = "shadowed"
	overlap             = "overlap"
	wideFirst           = "wide-first"
	gap                 = "gap"
	neverOffered        = "never-offered"
	notOnThisMachine    = "not-on-this-machine"
	neverAsked          = "never-asked"
	regBuff             = "reg-buff"
	noEffectInRelease   = "no-effect-in-release"
	bound4GiB           = "4gib-bound"
	channelsAbove64     = "channels-above-64"
	channelsAboveComm   = "channels-above-machine"
	channelsLeftAlone   = "channels-left-alone"
	channelsUnchecked   = "channels-unchecked"
	chunkBelowGrain     = "chunk-below-grain"
	badIgnore           = "bad-ignore"
	sumsVary            = "sums-vary"
	sumOrder            = "sum-order"
	modelInvalid        = "model-invalid"
	modelSimulated      = "model-simulated"
	modelRegret         = "model-regret"
	modelNoDefault      = "model-no-default"
	modelMachine        = "model-machine"
	modelDisagrees      = "model-disagrees"
	modelChannelsUnseen = "model-channels-unseen"
)

// The texts of the rules: # NAME SEVERITY, then the summary, then what Explain says.
//
//go:embed rules.txt
var ruleTexts string

// Rules lists all rules.
var Rules = func() (all []Rule) {
	for text := range strings.SplitSeq(strings.TrimPrefix(ruleTexts, "# "), "\n# ") {
		head, text, _ := strings.Cut(text, "\n")
		summary, explain, _ := strings.Cut(text, "\n")
		name, severity, _ := strings.Cut(head, " ")
		all = append(all, Rule{name, severities[severity], summary, strings.TrimSpace(explain)})
	}
	return all
}()

var severities = map[string]Severity{Note.String(): Note, Warning.String(): Warning, Error.String(): Error}

// RuleNamed returns the rule of that name.
func RuleNamed(name string) (Rule, bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return Rule{}, false
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
