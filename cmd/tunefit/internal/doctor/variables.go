package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func (d *doctor) examineEnvironment(context.Context) []finding {
	e := d.env
	found := restrictions(e)
	sound := fine("nothing in it decides before a policy would")
	if !d.Machine {
		found = slices.Concat(found, debugging(e), tunerVariables(e), comparing(e), bypasses(e))
		sound = fine("nothing in it works against the tuner, and its warnings are shown (%s)", e.Show("NCCL_DEBUG"))
	}
	for _, c := range e.Files {
		found = append(found, variablesFile(c, e)...)
	}
	if e.Ignored != "" {
		found = append(found, noted("", "%s is not read, since %s is set", e.Ignored, localenv.ConfVariable))
	}
	if !slices.ContainsFunc(found, func(f finding) bool { return f.Severity > isFine }) {
		found = append(found, sound)
	}
	return found
}

// restrictions are variables that decide before the tuner does.
func restrictions(e *localenv.Environment) (found []finding) {
	for _, name := range []string{"NCCL_ALGO", "NCCL_PROTO"} {
		if e.Get(name) != "" {
			found = append(found, warned("unset it, unless that is what you want",
				"%s beats the tuner: no row and no model can choose what it excludes", e.Show(name)))
		}
	}
	for _, name := range []string{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"} {
		if e.Get(name) != "" {
			found = append(found, noted("", "%s bounds the channels that a policy can ask for", e.Show(name)))
		}
	}
	if policy := strings.ToUpper(e.Get("NCCL_CTA_POLICY")); policy == "1" || strings.Contains(policy, "EFFICIENCY") {
		found = append(found, warned("give allgather and reducescatter rows with nvls, or unset it",
			"%s has less effect with a tuner: NCCL no longer chooses NVLS for registered buffers",
			e.Show("NCCL_CTA_POLICY")))
	}
	if plugin := e.Get("NCCL_ENV_PLUGIN"); plugin != "" && !strings.EqualFold(plugin, "none") {
		found = append(found, noted("set the tuner's variables in the environment or in NCCL's files",
			"%s: the tuner does not hear what it says of NCCL_TUNER_ variables", e.Show("NCCL_ENV_PLUGIN")))
	}
	return append(found, pastTuner(e)...)
}

// debugging says whether NCCL shows the tuner's messages.
func debugging(e *localenv.Environment) (found []finding) {
	const do = "set NCCL_DEBUG=WARN, or INFO to see what each communicator runs on"
	switch level := strings.ToUpper(e.Get("NCCL_DEBUG")); level {
	case "WARN", "INFO", "TRACE", "ABORT":
	case "":
		return []finding{warned(do, "NCCL_DEBUG is not set: the tuner's warnings are not shown")}
	default:
		return []finding{warned(do, "%s: the tuner's warnings are not shown", e.Show("NCCL_DEBUG"))}
	}
	if subsystems := e.Get("NCCL_DEBUG_SUBSYS"); subsystems != "" && !showsTuner(subsystems) {
		found = append(found, warned("add INIT or TUNING to it",
			"%s hides all that the tuner says, warnings too", e.Show("NCCL_DEBUG_SUBSYS")))
	}
	if file := e.Get("NCCL_DEBUG_FILE"); file != "" {
		found = append(found, noted("", "%s: look there for what the tuner says", e.Show("NCCL_DEBUG_FILE")))
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

// comparing says whether the job can compare its policy as it is told to.
func comparing(e *localenv.Environment) []finding {
	if isDeterministic(e) { // the tuner's own words about its settings name what it refuses
		return nil
	}
	with := e.Get(tuner.EnvCompare)
	if mode := reloadMode(e); mode != "live" && (with != "" || e.Get(tuner.EnvCanary) == "1") {
		return []finding{failed("unset "+tuner.EnvReload+", or what asks for a comparison",
			"%s: nothing is compared, although %s or %s asks for it",
			e.Show(tuner.EnvReload), tuner.EnvCompare, tuner.EnvCanary)}
	}
	if with == "" || with == "nccl" {
		return nil
	}
	if _, _, err := ask.ReadPolicy(new(cli.Inputs), with); err != nil {
		return []finding{failed("name a policy file, or nccl", "%s: %v; nothing is compared",
			e.Show(tuner.EnvCompare), err)}
	}
	return nil
}

// tunerVariables finds names and values that the tuner does not understand.
func tunerVariables(e *localenv.Environment) (found []finding) {
	for _, name := range slices.Sorted(maps.Keys(e.Vars)) {
		if do := tuner.MeantVariable(name); do != "" && strings.TrimSpace(name) == name {
			found = append(found, warned(do, "%s has no meaning for this tuner", e.Show(name)))
		}
	}
	consequence := ""
	if isStrict(e) {
		consequence = ", and with " + e.Show(tuner.EnvStrict) + " no communicator can be created"
	}
	for _, problem := range tuner.CheckSettings(e.Get) {
		found = append(found, failed("correct or unset it", "%s%s", problem, consequence))
	}
	return found
}

// isDeterministic reports whether the tuner refuses what could change sums.
func isDeterministic(e *localenv.Environment) bool {
	s := e.Get(tuner.EnvDeterministic)
	return s != "" && s != "0"
}

// isStrict reports whether init fails if a file cannot be used.
func isStrict(e *localenv.Environment) bool {
	s := e.Get(tuner.EnvStrict)
	return s != "" && s != "0"
}

// variablesFile says what a file of variables sets, and which of its lines have no effect.
func variablesFile(c localenv.File, e *localenv.Environment) (found []finding) {
	if c.Err != nil {
		named := c.Path
		if c.Named {
			named = e.Show(localenv.ConfVariable)
		}
		return []finding{warned("correct the path or the permissions",
			"%s cannot be read, and NCCL says nothing about it: %v", named, c.Err)}
	}
	var sets []string
	if slices.ContainsFunc(c.Entries, func(s localenv.Entry) bool { return s.CR }) {
		found = append(found, noted("", "%s has the line ends of Windows: NCCL drops them since 2.30.3, and before "+
			"they are part of each value", c.Path))
	}
	for _, s := range c.Entries {
		place := fmt.Sprintf("%s:%d", c.Path, s.Line)
		name := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s.Name), "export "))
		if !strings.HasPrefix(name, "NCCL_") {
			continue
		}
		switch winner := e.Vars[s.Name]; {
		case name != s.Name:
			found = append(found, warned(fmt.Sprintf("write %s=%s", name, strings.TrimSpace(s.Value)),
				"%s sets %q, not %s: NCCL takes all before the equals sign as the name", place, s.Name, name))
		case s.Beaten && winner.Value != s.Value:
			found = append(found, noted("", "%s sets %s=%s without effect: %s wins", place, s.Name, s.Value,
				origin(winner)))
		case strings.TrimSpace(s.Value) != s.Value || strings.ContainsAny(s.Value, `"'`):
			found = append(found, warned("write it without quotes and blanks",
				"%s gives %s the value %q, quotes and blanks included", place, s.Name, s.Value))
		case !s.Beaten:
			sets = append(sets, s.Name)
		}
	}
	if len(sets) > 0 {
		found = append(found, noted("", "%s sets %s", c.Path, strings.Join(sets, ", ")))
	}
	return found
}

// origin names where a value comes from.
func origin(s localenv.Setting) string {
	if s.File == "" {
		return fmt.Sprintf("%q of the environment", s.Value)
	}
	return fmt.Sprintf("%q of %s:%d", s.Value, s.File, s.Line)
}
