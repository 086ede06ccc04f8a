package bench

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// environment is what a log shows of NCCL's variables, by name without NCCL_. Only what NCCL itself logs and the
// command of a run tell what ran. All else is a hint: who exported, quoted or announced a variable may have run
// something else in the end.
type environment struct {
	logged map[string]string // by NCCL's log of this run
	command
	used     bool // the run of that command has begun
	complete bool // all variables of the process are known, as nccl-tests' JSON tells

	exported map[string]string
	prose    string            // the last line that announced something
	unended  string            // a command that goes on in the next line
	traced   map[string]string // what a shell's trace (set -x) showed of the next command
	typed    bool              // a prompt stands before the command: tunefit sweep did not start it
}

var (
	variable = regexp.MustCompile(`\b([NR]CCL)_([A-Z0-9_]+)(=| set by environment to | +)`)
	unsetVar = regexp.MustCompile(`\bunset\s+NCCL_([A-Z_]+)`)
	// exports are lines that set variables for all that follows: by a word, or as a list of them.
	exports = regexp.MustCompile(`^(?:export|declare|setenv)\s|^[A-Za-z_]\w*=`)
	// decides are variables that choose instead of NCCL, switches those that take something from its choice, and
	// network those that change what it thinks of its paths.
	decides  = regexp.MustCompile(`^(?:ALGO|PROTO|M(?:IN|AX)_(?:NCHANNELS|CTAS)|TUNER_PLUGIN)$`)
	switches = regexp.MustCompile(`^(?:NVLS|MNNVL_|P2P_|SHM_|(?:LL_|LL128_)?(?:BUFFSIZE|NTHREADS)$|LL128_C2C|` +
		`THREAD_THRESHOLDS|CTA_POLICY|CGA_CLUSTER_SIZE|M(?:IN|AX)_NRINGS|COLLNET_|PAT_ENABLE|RINGS$|RCCL_)`)
	network = regexp.MustCompile(`^(?:NVB_|PXN_|CROSS_NIC|NET$|NET_|NETDEVS_|IB_DISABLE|TOPO_FILE|` +
		`GRAPH_(?:FILE|REGISTER|MIXING)|CUMEM_|WIN_|SYM_|LOCAL_REGISTER|WORK_ARGS_BYTES|UNPACK_|ENQUEUE_REARCH|HOSTID)`)
)

// log takes a variable that NCCL's log tells. Before it changes anything it calls before.
func (e *environment) log(message []byte, before func()) {
	for name, value := range assignments(string(message)) {
		if e.logged[name] == value {
			continue
		}
		before()
		if e.logged == nil {
			e.logged = map[string]string{}
		}
		e.logged[name] = value
	}
}

// read takes commands, and what hints at a configuration, from a line that is no row and no line of NCCL's log. It
// reports whether it was one. Before it changes anything it calls before.
func (e *environment) read(line []byte, before func()) bool {
	text := strings.TrimSpace(string(line))
	shown := prompt.FindString(text)
	if e.unended != "" || shown != "" || commandStart.MatchString(text) {
		if more, unended := strings.CutSuffix(text[len(shown):], `\`); unended && len(e.unended) < longestRow {
			e.unended += more
			return true
		}
	}
	bare, traced := e.unended+text[len(shown):], e.traced
	e.unended, e.traced = "", nil
	isTrace := strings.HasPrefix(shown, "+")
	if c, ok := parseCommand(bare); ok {
		before()
		if isTrace {
			for name, value := range traced {
				c.variables[name] = value
				delete(e.exported, name)
			}
		}
		*e = environment{exported: e.exported, command: c, typed: shown != "" && !isTrace}
		return true
	}
	switch found := assignments(bare); {
	case unsetVar.MatchString(text):
		before()
		delete(e.exported, unsetVar.FindStringSubmatch(text)[1])
	case exports.MatchString(bare) && !program.MatchString(bare):
		if len(found) == 0 {
			return false
		}
		before()
		if isTrace && onlyAssignment.MatchString(bare) {
			e.traced = found
			maps.Copy(e.traced, traced)
		}
		if e.exported == nil {
			e.exported = map[string]string{}
		}
		maps.Copy(e.exported, found)
	default:
		return e.announce(text, shown, hintOf(found) != "", before)
	}
	return true
}

// announce takes a heading, a remark, or a command of something else. hints: it sets variables that do.
func (e *environment) announce(text, shown string, hints bool, before func()) bool {
	byDefault := false
	if strings.IndexByte("#=*-", text[0]) >= 0 { // as headings begin
		var words []string
		words, byDefault = hintsIn(text)
		const title = 5 // blanks; "a simple benchmark of our cluster" is none
		hints = hints || len(words) > 1 || words != nil && strings.Count(text, " ") <= title
	}
	if hints || byDefault || shown != "" && shown[0] != '+' || strings.HasPrefix(text, "```") {
		if !e.used {
			e.forget() // something else ran after the command
		}
	}
	switch {
	case hints:
		before()
		e.prose = text
	case byDefault:
		before()
		e.prose = ""
	default:
		return false
	}
	return true
}

// begin says that a run begins. A command and what NCCL logs are those of one run only.
func (e *environment) begin() {
	if e.used {
		e.forget()
	}
	e.logged = nil
}

// forget makes a hint of the command.
func (e *environment) forget() {
	prose := e.prose
	if hintOf(e.variables) != "" || e.passed != "" || e.args.untold() || e.cpuTime {
		prose = e.line
	}
	*e = environment{logged: e.logged, exported: e.exported, prose: prose}
}

// assignments returns the variables that a text sets, by name. Of one that it passes on ("-x NCCL_ALGO"), or sets to
// what a shell puts there, the value begins with $.
func assignments(text string) map[string]string {
	found := map[string]string{}
	for _, m := range variable.FindAllStringSubmatchIndex(text, -1) {
		separator := text[m[6]:m[7]]
		value := valueAt(text[m[1]:], separator)
		name := text[m[4]:m[5]]
		if text[m[2]:m[3]] == "RCCL" {
			name = "RCCL_" + name
		}
		switch before := strings.TrimRight(text[:m[0]], " "); {
		case separator == "=":
		case strings.Contains(separator, "set"):
			value = strings.TrimSuffix(value, ".") // ends the sentence where NCCL prints a number
		case strings.HasSuffix(before, "env"): // only Hydra's -genv separates by a blank
		case strings.HasSuffix(before, " -x"):
			value = "$" + name
		default:
			continue
		}
		if value != "" {
			found[name] = value
		}
	}
	return found
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

// get returns a variable as NCCL's log or the run's own command tells it.
func (e *environment) get(name string) string { return cmp.Or(e.logged[name], e.variables[name]) }

// changing lists the variables that change NCCL's choice, as on a command line.
func (e *environment) changing() string {
	found := map[string]bool{}
	for name, value := range ChannelBounds(e.getenv) {
		found[name+"="+value] = true
	}
	for _, names := range []map[string]string{e.variables, e.logged} {
		for name := range names {
			value := e.get(name)
			isDefault := value == "0" && strings.HasSuffix(name, "_DISABLE")
			if (switches.MatchString(name) || network.MatchString(name)) && !isDefault {
				found[fullName(name)+"="+strings.ReplaceAll(value, " ", "_")] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

// tells reports whether the variables of the run are known.
func (e *environment) tells() bool { return e.complete || e.line != "" }

// hint says in words what may have changed or replaced NCCL's choice, where nothing tells what ran; empty: nothing.
// joined: the log that NCCL wrote into a file of its own was read.
func (e *environment) hint(file string, joined bool) string {
	untold := maps.Clone(e.exported)
	maps.DeleteFunc(untold, func(name, _ string) bool { return e.get(name) != "" })
	apart, exported := cmp.Or(e.get("DEBUG_FILE"), e.exported["DEBUG_FILE"]), hintOf(untold)
	switch {
	case e.complete:
		return ""
	case !joined && apart != "":
		return "NCCL's log, which does, is in a file of its own, NCCL_DEBUG_FILE=" + apart +
			" (import it together with this one)"
	case e.passed != "" && e.logged[e.passed] == "":
		return "the command passes " + fullName(e.passed) + " on, whose value is not in the log"
	case e.prose != "":
		return "there is a line " + wording.Quote(e.prose)
	case exported != "":
		return "the log exports " + exported
	}
	return hintInName(file)
}

// hintOf names the first of the variables that may have chosen instead of NCCL, or changed its choice.
func hintOf(variables map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if isHint(name, variables[name]) {
			return fullName(name) + "=" + variables[name]
		}
	}
	return ""
}

func isHint(name, value string) bool {
	switch {
	case name == "TUNER_PLUGIN":
		return loadedTuner(value) != ""
	case value == "0" && strings.HasSuffix(name, "_DISABLE"):
		return false
	}
	return decides.MatchString(name) || switches.MatchString(name)
}

// fullName is the name of a variable as in the environment.
func fullName(name string) string {
	if strings.HasPrefix(name, "RCCL_") {
		return name
	}
	return "NCCL_" + name
}

// channelKinds are what NCCL's variables count channels by: NCCL_MIN_NCHANNELS and so on.
var channelKinds = []string{"NCHANNELS", "CTAS"}

// channelRange returns what variables say of one kind: a least number, a most, or both; 0: nothing.
func channelRange(getenv func(string) string, kind string) (least, most int) {
	least, _ = strconv.Atoi(getenv("NCCL_MIN_" + kind))
	most, _ = strconv.Atoi(getenv("NCCL_MAX_" + kind))
	return max(0, least), max(0, most)
}

// ChannelBounds returns the variables that bound the channels of a communicator, with their values: a most number, and
// with it a smaller least one. Sites set such bounds for good, and below them NCCL chooses. All else that these
// variables can say forces a number.
func ChannelBounds(getenv func(string) string) (bounds map[string]string) {
	bounds = map[string]string{}
	for _, kind := range channelKinds {
		least, most := channelRange(getenv, kind)
		if least >= most {
			continue
		}
		bounds["NCCL_MAX_"+kind] = getenv("NCCL_MAX_" + kind)
		if least > 0 {
			bounds["NCCL_MIN_"+kind] = getenv("NCCL_MIN_" + kind)
		}
	}
	return bounds
}

// getenv returns a variable of NCCL by its full name.
func (e *environment) getenv(name string) string { return e.get(strings.TrimPrefix(name, "NCCL_")) }

// saysChannels reports whether variables say how many channels there are at least or at most, and whether they force
// some.
func (e *environment) saysChannels() (says, forces bool) {
	for _, kind := range channelKinds {
		least, most := channelRange(e.getenv, kind)
		says = says || least > 0 || most > 0
		forces = forces || least > 0 && least >= most
	}
	return says, forces
}

// claim turns the variables into a label for one collective.
func (e *environment) claim(coll string) claim {
	algo, proto := e.get("ALGO"), e.get("PROTO")
	c := claim{from: originVariables, forcesCell: algo != "" || proto != ""}
	c.Cell = CellNamed(onlyChoice(algo, coll), onlyChoice(proto, coll))
	says, forces := e.saysChannels()
	c.forcesChannels, c.forcesCell = says, c.forcesCell || forces
	for _, kind := range channelKinds {
		if least, most := channelRange(e.getenv, kind); least == most && least > 0 {
			c.Channels = least
		}
	}
	if v := e.get("TUNER_PLUGIN"); v != "" && !strings.EqualFold(v, "none") {
		c.forcesCell, c.forcesChannels = true, true
	}
	return c
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

// command is a line of a log that started a run of nccl-tests.
type command struct {
	line      string
	program   string            // as all_reduce_perf
	variables map[string]string // that it sets, by name without NCCL_
	passed    string            // one that chooses or changes NCCL's choice, and whose value the line does not tell
	args      settings          // options of nccl-tests
	cpuTime   bool              // -C 1
}

var (
	// prompt is what stands before a command: "$ ", "bash-5.1$ ", "me@node:~$ ", "[me@node ~]# ", "+ " of a trace, and
	// "Running: ".
	prompt = regexp.MustCompile(`^(?:\++ |[\w.-]+[$#%>] |[$%>] |` +
		`(?:\([\w.-]+\) ?)?\[?[\w.-]+@[\w.-]+[^$#%>"'=]*[$#%>] ?|[A-Z][\w ]{0,30}: )`)
	// commandStart is how a command begins: with a variable, a path or a word. Most sentences begin with a capital.
	commandStart = regexp.MustCompile(`^(?:[A-Za-z_]\w*=|["'(]?[a-z./~$])`)
	// program is one of nccl-tests where a command can stand: nothing but options and redirections follow.
	program = regexp.MustCompile(`(?:^|[\s/"'])([a-z_]+_perf)(?:_mpi)?["')]*(?:$|\s+(?:$|-|[0-9]?[<>]|[$#&]))`)
	// elsewhere is standard output that goes to a file, which is not this one.
	elsewhere      = regexp.MustCompile(`(?:^|[^0-9&>])1?>>?\s*[^&\s>]`)
	onlyAssignment = regexp.MustCompile(`^[A-Za-z_]\w*=\S*$|^[A-Za-z_]\w*='[^']*'$`)
	cpuTime        = regexp.MustCompile(`\s(?:-C\s*|--report_cputime[= ])1\b`)
)

// parseCommand reads a line of a shell that runs one program of nccl-tests, whose output follows.
func parseCommand(text string) (c command, ok bool) {
	if !commandStart.MatchString(text) || !strings.Contains(text, "_perf") {
		return c, false
	}
	parts, at := splitCommands(text), -1
	for i, part := range parts {
		if program.MatchString(part) {
			if at >= 0 {
				return c, false // the output is of two programs
			}
			at = i
		}
	}
	if at < 0 {
		return c, false
	}
	m := program.FindStringSubmatchIndex(parts[at])
	before, after := parts[at][:m[2]], parts[at][m[3]:]
	if elsewhere.MatchString(after) {
		return c, false
	}
	c = command{line: text, program: parts[at][m[2]:m[3]], variables: map[string]string{}, args: argsOf(after),
		cpuTime: cpuTime.MatchString(after)}
	for _, part := range parts[:at] {
		if _, exported, is := strings.Cut(part, "export "); is {
			maps.Copy(c.variables, assignments(exported))
		}
	}
	maps.Copy(c.variables, assignments(before))
	for name, value := range c.variables {
		if strings.Contains(value, "$") {
			delete(c.variables, name)
			if isHint(name, value) {
				c.passed = name
			}
		}
	}
	return c, true
}

// splitCommands splits a line of a shell at ;, |, || and &&, outside of quotes. The text of sh -c is split, too.
func splitCommands(line string) (parts []string) {
	start, quote := 0, byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			if !strings.HasSuffix(line[:i], "-c ") {
				quote = c
			}
		case c == ';' || c == '|' || c == '&' && strings.HasPrefix(line[i:], "&&"):
			parts = append(parts, line[start:i])
			start = i + 1
		}
	}
	return append(parts, strings.TrimPrefix(line[start:], "&"))
}
