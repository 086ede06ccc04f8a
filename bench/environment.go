package bench

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// environment is what a log shows of NCCL's variables and of the command that ran. Exports stay in force. Variables on
// a command line are in force until the next command.
type environment struct {
	from     Origin // of the labels that it has
	exported map[string]string
	// logged is what NCCL's log of one run says of its variables.
	logged  map[string]string
	command map[string]string
	program string // the last command's, as all_reduce_perf
	cpuTime bool   // -C 1 on the last command line
}

var (
	variable = regexp.MustCompile(
		`\b(?:[NR]CCL_)?(ALGO|PROTO|MIN_NCHANNELS|MAX_NCHANNELS|MIN_CTAS|MAX_CTAS|TUNER_PLUGIN)` +
			`(=| set by environment to | +)`)
	program  = regexp.MustCompile(`(?:^|[\s/"'])([a-z_]+_perf)(?:_mpi)?(?:$|[\s"'])`)
	cpuTime  = regexp.MustCompile(`\s(?:-C\s*|--report_cputime[= ])1\b`)
	unsetVar = regexp.MustCompile(`\bunset\s+NCCL_([A-Z_]+)`)
)

// readsEnv reports whether a line may be one for read. Lines without these
// words are most of a log.
func readsEnv(line []byte) bool {
	return bytes.Contains(line, []byte("ALGO")) || bytes.Contains(line, []byte("PROTO")) ||
		bytes.Contains(line, []byte("_NCHANNELS")) || bytes.Contains(line, []byte("_CTAS")) ||
		bytes.Contains(line, []byte("_perf")) || bytes.Contains(line, []byte("TUNER_PLUGIN"))
}

// read takes variables and commands from a line of a log, and reports whether
// it held any. Before it changes anything it calls before, once.
func (e *environment) read(line []byte, before func()) bool {
	text := string(line)
	changed := false
	change := func() {
		if !changed {
			changed = true
			before()
		}
	}
	if m := unsetVar.FindStringSubmatch(text); m != nil {
		change()
		delete(e.exported, m[1])
		return true
	}
	// "# Collective test starting: all_reduce_perf" is no command.
	isCommand := false
	if m := program.FindStringSubmatch(text); m != nil && !strings.HasPrefix(strings.TrimSpace(text), "#") {
		change()
		isCommand = true
		e.command = map[string]string{}
		e.program, e.cpuTime = m[1], cpuTime.MatchString(text)
	}
	env := strings.Index(text, "env")
	for _, m := range variable.FindAllStringSubmatchIndex(text, -1) {
		name, separator := text[m[2]:m[3]], text[m[4]:m[5]]
		value := valueAt(text[m[1]:], separator)
		// Only Hydra's -genv separates by a blank.
		if strings.TrimSpace(separator) == "" && (env < 0 || env > m[0]) {
			continue
		}
		if value == "" || strings.HasPrefix(value, "$") { // "-x NCCL_ALGO" passes on what was exported
			continue
		}
		into := &e.exported
		switch {
		case isCommand:
			into = &e.command
		case separator != "=" && strings.Contains(separator, "environment"):
			into = &e.logged
			value = strings.TrimSuffix(value, ".") // ends the sentence where NCCL prints a number
		}
		if *into == nil {
			*into = map[string]string{}
		}
		if (*into)[name] != value {
			change()
			(*into)[name] = value
		}
	}
	return changed
}

// longestValue is above the value of any of the variables, in bytes.
const longestValue = 256

// valueAt returns the value that text begins with. In lists of variables, as in
// srun's --export, a comma may also begin the next one.
func valueAt(text, separator string) string {
	text = text[:min(len(text), longestValue)]
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		value, _, _ := strings.Cut(text[1:], text[:1])
		return value
	}
	stop := " \t\"'"
	if separator == "=" {
		stop += ";"
	}
	if i := strings.IndexAny(text, stop); i >= 0 {
		text = text[:i]
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		if strings.Contains(part, "=") {
			parts = parts[:i]
			break
		}
	}
	return strings.Join(parts, ",")
}

// get returns a variable as the last command saw it.
func (e *environment) get(name string) string {
	if v, ok := e.logged[name]; ok {
		return v
	}
	if v, ok := e.command[name]; ok {
		return v
	}
	return e.exported[name]
}

// boundsChannels reports whether variables say how many channels there are at least or at most.
func (e *environment) boundsChannels() bool {
	for _, name := range []string{"MIN_NCHANNELS", "MAX_NCHANNELS", "MIN_CTAS", "MAX_CTAS"} {
		if _, err := strconv.Atoi(e.get(name)); err == nil {
			return true
		}
	}
	return false
}

// claim turns the variables into a label for one collective.
func (e *environment) claim(coll string) claim {
	algo, proto := e.get("ALGO"), e.get("PROTO")
	c := claim{from: e.from, forces: algo != "" || proto != ""}
	c.Cell = CellNamed(onlyChoice(algo, coll), onlyChoice(proto, coll))
	c.bounds = e.boundsChannels()
	c.forces = c.forces || c.bounds
	for _, kind := range []string{"NCHANNELS", "CTAS"} {
		low, errLow := strconv.Atoi(e.get("MIN_" + kind))
		high, errHigh := strconv.Atoi(e.get("MAX_" + kind))
		if errLow == nil && errHigh == nil && low == high && low > 0 {
			c.Channels = low
		}
	}
	if v := e.get("TUNER_PLUGIN"); v != "" && !strings.EqualFold(v, "none") {
		c.forces, c.bounds = true, true
	}
	return c
}

// config names what the variables and the file's name ask for, as tunefit sweep's --skip
// takes it; empty where algorithm or protocol is not asked for.
func (e *environment) config(name named) string {
	l := merge([]claim{e.claim(name.coll), name.claim()})
	if !l.Known() {
		return ""
	}
	return l.Config.Label()
}

// onlyChoice returns the single name that a value of NCCL_ALGO or NCCL_PROTO
// leaves for a collective, or nothing: "Ring", or since NCCL 2.24
// "allreduce:tree;broadcast:ring". A list or "^Tree" leaves a choice.
func onlyChoice(value, coll string) string {
	chosen := ""
	for part := range strings.SplitSeq(value, ";") {
		name, list, perColl := strings.Cut(part, ":")
		if !perColl {
			chosen = part
		} else if fold(strings.TrimSpace(name)) == coll {
			chosen = list
			break
		}
	}
	if strings.ContainsAny(chosen, ",^") {
		return ""
	}
	return strings.TrimSpace(chosen)
}
