package bench

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// variables are what is known of the environment of a run, by full name: NCCL's log, the env of nccl-tests' JSON and
// the user tell. All else that a text says of variables is a mention.
type variables map[string]string

// mention is a setting of which a text speaks: in a command, an export, a manifest, a heading or a file's name. Whoever
// wrote it may have run something else in the end.
type mention struct {
	name  string // of a variable; empty: value is a word, as ring or collnet
	value string // empty: the text does not tell
	line  int    // 0: the name of the file
	// lasting: it speaks of all runs below, as an export and a manifest do.
	lasting bool
}

// mentions are those since the last table, with the program and the options that stand there, too.
type mentions struct {
	of      []mention
	name    string // of a variable whose value a manifest has in its next line
	program string // as all_reduce_perf; "several": it is not clear which
	args    settings
	cpuTime bool // -C 1
}

var (
	// setByLog is how NCCL's log tells a variable.
	setByLog = regexp.MustCompile(`\b([NR]CCL_[A-Z0-9_]+) set by environment to +(.*?)\.?\s*$`)
	// valued is what stands between a name and its value: =, and : and value: of YAML and JSON.
	valued = regexp.MustCompile(`^(?:=|["']?\s*:\s*|["']?\s*,\s*["']?value["']?\s*:\s*)`)
	// byBlank are words before a name whose value follows a blank.
	byBlank = regexp.MustCompile(`(?:env|ENV) +$`)
	dropped = regexp.MustCompile(`(?:\bunset|\s-u) +$`)
	lasting = regexp.MustCompile(`^\W*(?:export|declare|setenv|env|ENV)\b|^\W*[A-Za-z_]\w*=\S*\s*$|:\s`)
	// chooses are variables that choose instead of NCCL.
	chooses = regexp.MustCompile(`^NCCL_(?:ALGO|PROTO|M(?:IN|AX)_(?:NCHANNELS|CTAS)|TUNER_PLUGIN|DEBUG_FILE)$`)
	// harmless are variables that change no time and no choice.
	harmless = regexp.MustCompile(`^(?:FI_LOG_|UCX_LOG_|[NR]CCL_(?:DEBUG|TESTS_|VERSION|HOME|ROOT|DIR|PATH|LIB|` +
		`INCLUDE|BUILD|SRC|CFLAGS|LDFLAGS|CONF|TOPO_DUMP|GRAPH_DUMP|TUNER_|PROFIL|INSPECTOR|RAS_|COMM_ID|ASYNC_ERROR|` +
		`BLOCKING_WAIT|SET_THREAD|NVTX|REPORT|WARN|INFO|TRACE|TIMEOUT))`)
	perfName = regexp.MustCompile(`(?:^|[\s/"'])([a-z_]+_perf)(?:_mpi)?(?:$|["')\s,;])`)
	cpuTimed = regexp.MustCompile(`\s(?:-C\s*|--report_cputime[= ])1\b`)
)

// log takes what NCCL's log tells of a variable. It reports whether that is new.
func (v *variables) log(message []byte) bool {
	m := setByLog.FindSubmatch(message)
	if m == nil {
		return false
	}
	name, value := string(m[1]), clip(string(m[2]))
	if (*v)[name] == value {
		return false
	}
	*v = v.with(map[string]string{name: value})
	return true
}

// with returns the variables and some more.
func (v variables) with(more map[string]string) variables {
	all := variables{}
	maps.Copy(all, v)
	maps.Copy(all, more)
	return all
}

func (v variables) get(name string) string { return v[name] }

// longestValue is above the value of any of the variables, in bytes.
const longestValue = 256

func clip(value string) string {
	value = value[:min(len(value), longestValue)]
	return strings.Trim(value, `"'`)
}

// read finds the mentions in a line that is no row, no header and no line of NCCL's log. It reports whether there are
// any.
func (ms *mentions) read(at int, line []byte) bool {
	before := len(ms.of)
	if ms.name != "" {
		name := ms.name
		ms.name = ""
		_, value, told := bytes.Cut(line, []byte("value:"))
		if told {
			ms.add(mention{name, valueAt(strings.TrimSpace(string(value))), at, true})
			return true
		}
		ms.add(mention{name, "", at, true})
	}
	if bytes.Contains(line, []byte("_perf")) {
		ms.command(string(line))
	}
	if bytes.Contains(line, []byte("CCL_")) || bytes.Contains(line, []byte("FI_")) ||
		bytes.Contains(line, []byte("UCX_")) || bytes.Contains(line, []byte("CUDA_VISIBLE_DEVICES")) {
		ms.names(at, string(line))
	}
	if strings.IndexByte("#=*-", line[0]) >= 0 && !named.Match(line) { // as headings begin
		words := hintsIn(string(line))
		const title = 5 // blanks; "a simple benchmark of our cluster" is none
		if len(words) > 1 || len(words) == 1 && bytes.Count(line, []byte(" ")) <= title {
			ms.add(mention{"", strings.Join(words, "+"), at, false})
		}
	}
	return len(ms.of) > before
}

// names finds the names of variables.
func (ms *mentions) names(at int, text string) {
	text = text[:min(len(text), longestRow)]
	lasts := lasting.MatchString(text) && !perfName.MatchString(text)
	for _, m := range named.FindAllStringIndex(text, -1) {
		before, name, after := text[:m[0]], text[m[0]:m[1]], text[m[1]:]
		value := ""
		switch between := valued.FindString(after); {
		case between != "":
			value = valueAt(after[len(between):])
		case dropped.MatchString(before[max(0, len(before)-16):]):
			continue
		case byBlank.MatchString(before[max(0, len(before)-16):]):
			value = valueAt(strings.TrimLeft(after, " "))
		case strings.TrimSpace(strings.Trim(after, `"'`)) == "" && strings.Contains(before, "name:"):
			ms.name = name
			continue
		}
		ms.add(mention{name, value, at, lasts})
	}
}

const mostMentions = 64 // of one run: more of them tell no more

func (ms *mentions) add(m mention) {
	if m.name != "" && harmless.MatchString(m.name) && !chooses.MatchString(m.name) {
		return
	}
	i := slices.IndexFunc(ms.of, func(o mention) bool {
		return o.name == m.name && (m.name != "" || o.value == m.value)
	})
	switch {
	case i >= 0:
		m.lasting = m.lasting || ms.of[i].lasting
		ms.of[i] = m
	case len(ms.of) < mostMentions:
		ms.of = append(ms.of, m)
	}
}

// command takes a line that names a program of nccl-tests.
func (ms *mentions) command(line string) {
	line = line[:min(len(line), longestRow)]
	found := perfName.FindAllStringSubmatchIndex(line, 8)
	for _, m := range found {
		if name := line[m[2]:m[3]]; ms.program != "" && ms.program != name {
			ms.program = "several"
		} else {
			ms.program = name
		}
		ms.args, ms.cpuTime = argsOf(line[m[3]:]), cpuTimed.MatchString(line[m[3]:])
	}
}

// take hands the mentions over to a run, and keeps those that speak of later ones, too.
func (ms *mentions) take() (of mentions) {
	of = *ms
	*ms = mentions{}
	for _, m := range of.of {
		if m.lasting {
			ms.of = append(ms.of, m)
		}
	}
	return of
}

// join adds mentions that came later.
func (ms *mentions) join(later mentions) {
	for _, m := range later.of {
		ms.add(m)
	}
	if later.program != "" {
		ms.program, ms.args, ms.cpuTime = later.program, later.args, later.cpuTime
	}
}

// valueAt returns the value that text begins with; empty: a shell puts one there. In lists of variables, as in srun's
// --export, a comma may also begin the next one.
func valueAt(text string) string {
	text = text[:min(len(text), longestValue)]
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		text, _, _ = strings.Cut(text[1:], text[:1])
	} else {
		if i := strings.IndexAny(text, " \t\"';|&)}]"); i >= 0 {
			text = text[:i]
		}
		parts := strings.Split(text, ",")
		for i, part := range parts {
			if strings.Contains(part, "=") {
				parts = parts[:i]
				break
			}
		}
		text = strings.TrimRight(strings.Join(parts, ","), ",")
	}
	if strings.ContainsAny(text, "$<>{}") {
		return ""
	}
	return text
}

// String is the mention as the column of variables has it.
func (m mention) String() string {
	if m.name == "" {
		return m.value + unsure
	}
	return m.name + "=" + strings.ReplaceAll(m.value, " ", "_") + unsure
}

// chose reports whether the mention may have chosen instead of NCCL.
func (m mention) chose() bool { return m.name == "" || chooses.MatchString(m.name) }

// changing lists the variables that change times or NCCL's choice, as on a command line, and what is only mentioned.
func (v variables) changing(unknown []mention) string {
	found := map[string]bool{}
	for name, value := range ChannelBounds(v.get) {
		found[name+"="+value] = true
	}
	for name, value := range v {
		isDefault := value == "" || value == "0" && strings.HasSuffix(name, "_DISABLE")
		if named.MatchString(name) && !isDefault && !chooses.MatchString(name) && !harmless.MatchString(name) {
			found[name+"="+strings.ReplaceAll(value, " ", "_")] = true
		}
	}
	for _, m := range unknown {
		found[m.String()] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

// saysChannels reports whether variables say how many channels there are at least or at most, and whether they force
// some.
func (v variables) saysChannels() (says, forces bool) {
	for _, kind := range channelKinds {
		least, most := channelRange(v.get, kind)
		says = says || least > 0 || most > 0
		forces = forces || least > 0 && least >= most
	}
	return says, forces
}

// longestRow bounds what is put together as one row.
const longestRow = 4096
