package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func (d *doctor) examineEnvironment(context.Context) []finding {
	e := d.env
	found := slices.Concat(restrictions(e), debugging(e), tunerVariables(e))
	for _, c := range e.confs {
		found = append(found, c.findings(e)...)
	}
	if e.ignored != "" {
		found = append(found, noted("", "%s is not read, since %s is set", e.ignored, confVariable))
	}
	if !slices.ContainsFunc(found, func(f finding) bool { return f.Severity > isFine }) {
		found = append(found, fine("nothing in it stands against the tuner, and its warnings are shown (%s)", e.show("NCCL_DEBUG")))
	}
	return found
}

// restrictions are variables that decide before the tuner does.
func restrictions(e *environment) (found []finding) {
	for _, name := range []string{"NCCL_ALGO", "NCCL_PROTO"} {
		if e.get(name) != "" {
			found = append(found, warned("unset it, unless that is what you want",
				"%s beats the tuner: what it excludes, no row and no model can choose", e.show(name)))
		}
	}
	for _, name := range []string{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"} {
		if e.get(name) != "" {
			found = append(found, noted("", "%s bounds the channels that a policy can ask for", e.show(name)))
		}
	}
	if policy := strings.ToUpper(e.get("NCCL_CTA_POLICY")); policy == "1" || strings.Contains(policy, "EFFICIENCY") {
		found = append(found, warned("give allgather and reducescatter rows with nvls, or unset it",
			"%s does less with any tuner loaded: NCCL then no longer takes NVLS by itself for registered buffers", e.show("NCCL_CTA_POLICY")))
	}
	if plugin := e.get("NCCL_ENV_PLUGIN"); plugin != "" && !strings.EqualFold(plugin, "none") {
		found = append(found, noted("set the tuner's variables in the environment or in NCCL's files",
			"%s: what it says of NCCL_TUNER_ variables, the tuner does not hear", e.show("NCCL_ENV_PLUGIN")))
	}
	return found
}

// debugging is about whether anybody sees the tuner's messages.
func debugging(e *environment) (found []finding) {
	const do = "set NCCL_DEBUG=WARN, or INFO to see what each communicator runs on"
	switch level := strings.ToUpper(e.get("NCCL_DEBUG")); level {
	case "WARN", "INFO", "TRACE", "ABORT":
	case "":
		return []finding{warned(do, "NCCL_DEBUG is not set: the tuner's warnings are not shown")}
	default:
		return []finding{warned(do, "%s: the tuner's warnings are not shown", e.show("NCCL_DEBUG"))}
	}
	if subsystems := e.get("NCCL_DEBUG_SUBSYS"); subsystems != "" && !showsTuner(subsystems) {
		found = append(found, warned("add INIT or TUNING to it",
			"%s hides all that the tuner says, warnings too", e.show("NCCL_DEBUG_SUBSYS")))
	}
	if file := e.get("NCCL_DEBUG_FILE"); file != "" {
		found = append(found, noted("", "%s: look there for what the tuner says", e.show("NCCL_DEBUG_FILE")))
	}
	return found
}

// showsTuner reports whether a list of NCCL's subsystems lets lines of INIT or TUNING
// through; a list that begins with ^ names what is left out.
func showsTuner(subsystems string) bool {
	list, inverted := strings.CutPrefix(strings.ToUpper(subsystems), "^")
	names := strings.Split(list, ",")
	shows := func(name string) bool {
		return (slices.Contains(names, name) || slices.Contains(names, "ALL")) != inverted
	}
	return shows("INIT") || shows("TUNING")
}

// tunerVariables finds names and values that nobody understands.
func tunerVariables(e *environment) (found []finding) {
	known := append([]string{pluginVariable}, tuner.Variables...)
	lower := make([]string, len(known))
	for i, name := range known {
		lower[i] = strings.ToLower(name)
	}
	for _, name := range e.names() {
		if !isTunerVariable(name) || slices.Contains(known, name) || strings.TrimSpace(name) != name {
			continue
		}
		do := "the tuner knows " + strings.Join(known, ", ")
		if near := suggest.Nearest(name, lower); near != "" {
			do = fmt.Sprintf("did you mean %s?", strings.ToUpper(near))
		}
		found = append(found, warned(do, "%s has no meaning for this tuner", e.show(name)))
	}
	consequence := ""
	if isStrict(e) {
		consequence = ", and with " + e.show(tuner.EnvStrict) + " no communicator can be created"
	}
	for _, problem := range tuner.CheckSettings(e.get) {
		found = append(found, failed("correct or unset it", "%s%s", problem, consequence))
	}
	return found
}

// isStrict reports whether init fails over what is wrong.
func isStrict(e *environment) bool {
	s := e.get(tuner.EnvStrict)
	return s != "" && s != "0"
}

// findings says what a file of variables contributes.
func (c confFile) findings(e *environment) (found []finding) {
	if c.err != nil {
		named := c.path
		if c.named {
			named = e.show(confVariable)
		}
		return []finding{warned("correct the path or the permissions", "%s cannot be read, and NCCL says nothing about it: %v", named, c.err)}
	}
	var sets []string
	for _, s := range c.entries {
		place := fmt.Sprintf("%s:%d", c.path, s.line)
		name := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s.name), "export "))
		if !strings.HasPrefix(name, "NCCL_") {
			continue
		}
		switch winner := e.vars[s.name]; {
		case name != s.name:
			found = append(found, warned(fmt.Sprintf("write %s=%s", name, strings.TrimSpace(s.value)),
				"%s sets %q, not %s: NCCL takes all before the equals sign as the name", place, s.name, name))
		case s.beaten && winner.value != s.value:
			found = append(found, noted("", "%s sets %s=%s in vain: %s wins", place, s.name, s.value, winner.origin()))
		case strings.TrimSpace(s.value) != s.value || strings.ContainsAny(s.value, `"'`):
			found = append(found, warned("write it without quotes and blanks", "%s gives %s the value %q, quotes and blanks included", place, s.name, s.value))
		case !s.beaten:
			sets = append(sets, s.name)
		}
	}
	if len(sets) > 0 {
		found = append(found, noted("", "%s sets %s", c.path, strings.Join(sets, ", ")))
	}
	return found
}

// origin names where a value comes from.
func (s setting) origin() string {
	if s.file == "" {
		return fmt.Sprintf("%q of the environment", s.value)
	}
	return fmt.Sprintf("%q of %s:%d", s.value, s.file, s.line)
}
