package bench

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// environment is what a log shows of NCCL's variables, by name without NCCL_. Only what NCCL itself logs and the
// command of a run tell what ran. All else is a hint: who exported, quoted or announced a variable may have run
// something else in the end.
type environment struct {
	logged map[string]string // by NCCL's log of this run

	command  map[string]string // of the run's own command, or of its process, as nccl-tests' JSON tells
	line     string            // that command
	program  string            // the command's, as all_reduce_perf
	args     testArgs          // of the command
	cpuTime  bool              // -C 1
	used     bool              // the run of that command has begun
	complete bool              // all variables of the process are known

	exported map[string]string
	prose    string // the last line that announced something
	unended  string // a command that goes on in the next line
}

var (
	variable = regexp.MustCompile(`\b([NR]CCL)_([A-Z0-9_]+)(=| set by environment to | +)`)
	program  = regexp.MustCompile(`(?:^|[\s/"'])([a-z_]+_perf)(?:_mpi)?(?:$|[\s"'])`)
	cpuTime  = regexp.MustCompile(`\s(?:-C\s*|--report_cputime[= ])1\b`)
	unsetVar = regexp.MustCompile(`\bunset\s+NCCL_([A-Z_]+)`)
	// announced is a variable that prose names.
	announced = regexp.MustCompile(`\b(?:[NR]CCL_)?(?:ALGO|PROTO|MIN_NCHANNELS|MAX_NCHANNELS|MIN_CTAS|MAX_CTAS)=\S|` +
		`\bNCCL_(?:TUNER_PLUGIN|NVLS_ENABLE|P2P_DISABLE|SHM_DISABLE|BUFFSIZE|NTHREADS)=\S`)
	// prompt is what a shell prints before a command: "$ ", "+ " (set -x), "me@node:~$ ", "[me@node ~]# ".
	prompt = regexp.MustCompile(`^(?:\++ |[$%>] |(?:\([\w.-]+\) ?)?\[?[\w.-]+@[\w.-]+[^$#%>"'=]*[$#%>] ?)`)
	// commandWord is what the command of a run begins with: its variables, a shell's word, a launcher or the program.
	commandWord = regexp.MustCompile(`^(?:[A-Za-z_]\w*=|(?:export|env|cd|sudo|time|timeout|numactl|taskset|nsys|` +
		`ncu|nohup|mpirun|mpiexec|mpiexec\.hydra|orterun|prterun|prun|srun|aprun|jsrun|flux|horovodrun|torchrun|ssh|bash|sh|` +
		`docker|podman|kubectl|apptainer|singularity|enroot)\s|["']?[\w./~$\{}-]*_perf(?:_mpi)?\b)`)
	directory = regexp.MustCompile(`^[\w./~-]*/`)

	changes = regexp.MustCompile(`^(?:NVLS|MNNVL_|P2P_|SHM_|(?:LL_|LL128_)?(?:BUFFSIZE|NTHREADS)$|LL128_C2C|` +
		`THREAD_THRESHOLDS|CTA_POLICY|CGA_CLUSTER_SIZE|M(?:IN|AX)_NRINGS|COLLNET_|PAT_ENABLE|NVB_|PXN_|CROSS_NIC|` +
		`NET$|NET_|NETDEVS_|IB_DISABLE|TOPO_FILE|GRAPH_|RINGS$|CUMEM_|WIN_|SYM_|LOCAL_REGISTER|WORK_ARGS_BYTES|` +
		`UNPACK_|ENQUEUE_REARCH|RCCL_)`)
)

// readsEnv reports whether a line may be one for read. Lines without these words are most of a log.
func readsEnv(line []byte) bool {
	return bytes.Contains(line, []byte("CCL_")) || bytes.Contains(line, []byte("ALGO")) ||
		bytes.Contains(line, []byte("PROTO")) || bytes.Contains(line, []byte("_perf"))
}

// isHeading reports whether a line may be one.
func isHeading(line []byte) bool { return bytes.IndexByte([]byte("#=*-"), line[0]) >= 0 }

// log takes a variable that NCCL's log tells. Before it changes anything it calls before.
func (e *environment) log(message []byte, before func()) {
	found := assignments(string(message))
	if len(found) == 0 {
		return
	}
	if e.logged == nil {
		e.logged = map[string]string{}
	}
	for name, value := range found {
		if e.logged[name] != value {
			before()
			e.logged[name] = value
		}
	}
}

// read takes commands, and what hints at a configuration, from a line that is no row and no line of NCCL's log. It
// reports whether it was one. Before it changes anything it calls before.
func (e *environment) read(line []byte, before func()) bool {
	text := strings.TrimSpace(string(line))
	bare := prompt.ReplaceAllString(text, "")
	isCommand := e.unended != "" || commandWord.MatchString(directory.ReplaceAllString(bare, ""))
	if isCommand && len(e.unended) < longestRow {
		if more, unended := strings.CutSuffix(bare, `\`); unended {
			e.unended += more
			return true
		}
	}
	bare, e.unended = e.unended+bare, ""
	m := program.FindStringSubmatchIndex(bare)
	switch {
	case isCommand && m != nil:
		before()
		*e = environment{exported: e.exported, line: bare, program: bare[m[2]:m[3]], command: assignments(bare[:m[3]]),
			args: argsOf(bare[m[3]:]), cpuTime: cpuTime.MatchString(bare[m[3]:])}
		return true
	case unsetVar.MatchString(text):
		before()
		delete(e.exported, unsetVar.FindStringSubmatch(text)[1])
		return true
	case isCommand:
		found := assignments(bare)
		if len(found) == 0 {
			return false
		}
		before()
		if e.exported == nil {
			e.exported = map[string]string{}
		}
		maps.Copy(e.exported, found)
		return true
	}
	return e.announce(text, before)
}

// announce takes a heading or a remark.
func (e *environment) announce(text string, before func()) bool {
	word, byDefault := "", false
	if isHeading([]byte(text)) {
		word, byDefault = hintIn(text)
	}
	switch {
	case word != "" || announced.MatchString(text):
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
	e.logged = nil
	if e.used {
		prose := e.prose
		if hint := hintOf(e.command); hint != "" && prose == "" {
			prose = e.line
		}
		*e = environment{exported: e.exported, prose: prose}
	}
}

// assignments returns the variables that a text sets, by name.
func assignments(text string) map[string]string {
	found := map[string]string{}
	for _, m := range variable.FindAllStringSubmatchIndex(text, -1) {
		separator := text[m[6]:m[7]]
		value := valueAt(text[m[1]:], separator)
		// Only Hydra's -genv separates by a blank.
		if strings.TrimSpace(separator) == "" && !strings.HasSuffix(strings.TrimRight(text[:m[0]], " "), "env") {
			continue
		}
		if value == "" || strings.HasPrefix(value, "$") { // "-x NCCL_ALGO" passes on what was exported
			continue
		}
		if separator != "=" {
			value = strings.TrimSuffix(value, ".") // ends the sentence where NCCL prints a number
		}
		name := text[m[4]:m[5]]
		if text[m[2]:m[3]] == "RCCL" {
			name = "RCCL_" + name
		}
		found[name] = value
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
func (e *environment) get(name string) string {
	if v, ok := e.logged[name]; ok {
		return v
	}
	return e.command[name]
}

// changing lists the variables that change NCCL's choice, as on a command line.
func (e *environment) changing() string {
	found := map[string]bool{}
	for _, names := range []map[string]string{e.command, e.logged} {
		for name := range names {
			if value := e.get(name); changes.MatchString(name) {
				if !strings.HasPrefix(name, "RCCL_") {
					name = "NCCL_" + name
				}
				found[name+"="+strings.ReplaceAll(value, " ", "_")] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

// tells reports whether the variables of the run are known.
func (e *environment) tells() bool { return e.complete || e.line != "" }

// hint says in words what may have changed or replaced NCCL's choice, where nothing tells what ran; empty: nothing. joined: the
// log that NCCL wrote into a file of its own was read.
func (e *environment) hint(file string, joined bool) string {
	switch {
	case e.complete:
		return ""
	case !joined && e.get("DEBUG_FILE") != "":
		return "NCCL's log, which does, is in a file of its own, NCCL_DEBUG_FILE=" + e.get("DEBUG_FILE") +
			" (import it together with this one)"
	}
	if e.prose != "" {
		return "there is a line " + strconv.Quote(clipped(e.prose))
	}
	untold := maps.Clone(e.exported)
	maps.DeleteFunc(untold, func(name, _ string) bool { return e.get(name) != "" })
	if hint := hintOf(untold); hint != "" {
		return "the log exports " + hint
	}
	return hintInName(file)
}

// hintOf names the first of the variables that decides or switches something off.
func hintOf(variables map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if set := "NCCL_" + name + "=" + variables[name]; announced.MatchString(set) &&
			!strings.HasSuffix(strings.ToLower(set), "plugin=none") {
			return set
		}
	}
	return ""
}

// clipped shortens a quoted line.
func clipped(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
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
	c := claim{from: originVariables, forces: algo != "" || proto != ""}
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
