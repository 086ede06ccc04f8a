package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// launched is what a launcher puts before each line of a process: "[1,0]<stdout>:" (Open MPI),
// "[prterun-host-1@1,0]<stdout>: " (PRRTE), " 0: " (srun -l) and "[0] " (Hydra). A row has no colon after its first
// number, and "[0] NCCL INFO" in NCCL's own lines is not at their start.
var (
	launched = regexp.MustCompile(`^ *(?:\[[^\]]*\]<std(?:out|err|diag)>:|\[[0-9]+\] |[0-9]{1,7}:(?: |$))`)
	// tag is Open MPI's, wherever it stands: nccl-tests writes a row in pieces, and each gets one.
	tag = regexp.MustCompile(`\[[^\]\s]*\]<std(?:out|err|diag)>: ?`)
	// colour is what a terminal obeys and does not print.
	colour = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")
	// begins is where a line of nccl-tests' header begins, whatever stands before it.
	begins = regexp.MustCompile(`# *(?:nThread [0-9]+ nGpus|Rank +[0-9]+ .* device|[nr]ccl-tests version|` +
		`Collective test starting:|Using devices|size +count +type)`)
	// counts is what may differ from line to line in the prefix of one log: numbers, and the words of a date.
	// GitLab's runner counts lines as 0aO and 0bE, and loggers put a level there.
	counts = regexp.MustCompile(`[0-9a-f]{2}[OE]\b|[0-9]+|\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG|NOTICE|stdout|stderr)\b|` +
		`\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b|\b[AP]M\b| +`)
	hydra     = regexp.MustCompile(`^\[[0-9]+\]$`)
	clockTime = regexp.MustCompile(`[0-9]{2}:[0-9]{2}`)
	// units of a table's columns, as in "time (us)".
	units = regexp.MustCompile(`\((?:B|us|GB/s|elements)\)`)
)

// linePrefix is what a launcher or a collector of logs puts before every line. It is found before the header of a run.
type linePrefix struct {
	start, inside *regexp.Regexp // nil: none is known
	quoted        bool           // the lines are quoted, as in ansible's lists
	missing       bool           // the last line did not have it
	label         string         // what was before the last line
}

// learn finds the prefix of a line of a header.
func (p *linePrefix) learn(line []byte) {
	at := begins.FindIndex(line)
	const longest = 256 // prefixes are shorter
	if at == nil || at[0] > longest || p.start != nil && len(p.start.Find(line)) == at[0] {
		return
	}
	text := string(line[:at[0]])
	*p = linePrefix{}
	if strings.TrimSpace(text) == "" {
		return
	}
	pattern := counts.ReplaceAllStringFunc(regexp.QuoteMeta(text), func(word string) string {
		switch {
		case word[0] == ' ':
			return " *"
		case strings.HasSuffix(word, "O") || strings.HasSuffix(word, "E"):
			return "[0-9a-f]{2}[OE]"
		case word[0] <= '9':
			return "[0-9]+"
		case len(word) > 3:
			return "[A-Za-z]{4,7}"
		}
		return "[A-Za-z]{2,3}"
	})
	p.start = regexp.MustCompile("^" + strings.TrimSuffix(pattern, " *"))
	p.quoted = strings.HasSuffix(text, `"`)
	if strings.Contains(text, "]<std") {
		p.inside = regexp.MustCompile(pattern)
	}
}

// strip removes what launchers and collectors add to a line.
func (p *linePrefix) strip(line []byte) []byte {
	if at := bytes.IndexByte(line, '{'); at >= 0 && bytes.HasPrefix(line[at:], []byte(`{"`)) {
		if wrapped, ok := Unwrap(bytes.TrimSpace(line[at:])); ok {
			line = wrapped
		}
	}
	if bytes.IndexByte(line, 0x1b) >= 0 {
		line = colour.ReplaceAll(line, nil)
	}
	if bytes.Contains(line, []byte("\u00a0")) {
		line = bytes.ReplaceAll(line, []byte("\u00a0"), []byte(" "))
	}
	if bytes.IndexByte(line, '#') >= 0 {
		p.learn(line)
	}
	p.label = ""
	if p.start != nil {
		n := len(p.start.Find(line))
		if p.missing = n == 0; n > 0 {
			p.label = strings.TrimSpace(string(line[:n]))
			line = line[n:]
			if p.quoted {
				line = bytes.TrimSuffix(bytes.TrimRight(line, ", \r\n"), []byte(`"`))
			}
		}
	}
	bare := stripLauncher(line)
	if n := len(line) - len(bare); n > 0 {
		p.label = strings.TrimSpace(p.label + string(line[:n]))
		line = bare
	}
	if again := strings.TrimSpace(p.label); hydra.MatchString(again) { // it is before each piece of a row
		line = bytes.ReplaceAll(line, []byte(again+" "), []byte(" "))
	}
	if bytes.Contains(line, []byte("]<std")) {
		if p.inside != nil {
			line = p.inside.ReplaceAll(line, []byte(" "))
		}
		line = tag.ReplaceAll(line, []byte(" "))
	}
	if row := bytes.TrimSpace(line); len(row) > 1 && row[0] == '|' && row[len(row)-1] == '|' { // a table of Markdown
		line = units.ReplaceAll(bytes.ReplaceAll(line, []byte("|"), []byte(" ")), nil)
	}
	return line
}

// holdsRow reports whether a row stands in a line behind something else.
func holdsRow(line []byte) bool {
	const most = 8 // words of a prefix
	var words [most + 3][]byte
	tokens := tokensOf(line, words[:])
	for i := 1; i+2 < len(tokens); i++ {
		if beginsRow(tokens[i:]) {
			return true
		}
	}
	return false
}

// linesOf returns the lines of a text that ansible prints as one, "msg": "one\ntwo"; nil: the line is none of these.
func linesOf(line []byte) [][]byte {
	if bytes.IndexByte(line, '\\') < 0 || !bytes.Contains(line, []byte(`\n#`)) {
		return nil
	}
	at := bytes.Index(line, []byte(`": "`))
	if at < 0 {
		return nil
	}
	var text string
	if json.Unmarshal(bytes.TrimRight(line[at+len(`": `):], ",} \t\r\n"), &text) != nil {
		return nil
	}
	return bytes.Split([]byte(text), []byte("\n"))
}

// wrappers are the keys under which collectors of logs keep a line, each line in an object of JSON.
var wrappers = []string{"log", "message", "msg", "line", "textPayload", "MESSAGE", "@message", "body", "text"}

// Unwrap returns the line that a collector of logs has put into an object of JSON.
func Unwrap(line []byte) (text []byte, ok bool) {
	var object map[string]any
	if json.Unmarshal(line, &object) != nil {
		return nil, false
	}
	for _, key := range wrappers {
		if said, isText := object[key].(string); isText {
			return []byte(strings.TrimRight(said, "\n")), true
		}
	}
	return nil, false
}

// IsWrapped reports whether the first line of a file is an object of JSON with a line in it.
func IsWrapped(start []byte) bool {
	line, _, _ := bytes.Cut(start, []byte("\n"))
	_, ok := Unwrap(bytes.TrimSpace(line))
	return ok
}

// stripLauncher removes the prefixes of known launchers. They may be nested.
func stripLauncher(line []byte) []byte {
	for range 2 {
		start := bytes.TrimLeft(line, " ")
		if !bytes.HasPrefix(start, []byte("[")) && !bytes.Contains(start[:min(len(start), 9)], []byte(":")) {
			return line // most lines; the expression takes longer
		}
		line = line[len(launched.Find(line)):]
	}
	return line
}

// logLine is a line of NCCL's debug log, and the piece of a result row that was
// printed before it without a line's end.
type logLine struct {
	row     []byte // may be blank
	process string // host:pid:tid
	said    []byte // the line without that piece
}

// hosts remembers host names from the starts of log lines and from the list of devices. They show where a row ends that
// has a log line glued to it, such as "sum      -1node7:12:12 [0] NCCL INFO".
type hosts map[string]bool

// longestHost is HOST_NAME_MAX of Linux, in bytes.
const longestHost = 64

func (h hosts) split(line []byte) (l logLine, ok bool) {
	at := bytes.Index(line, []byte("NCCL "))
	if at < 0 {
		return l, false
	}
	level := line[at+len("NCCL "):]
	isLevel := func(word string) bool { return bytes.HasPrefix(level, []byte(word)) }
	if !isLevel("INFO ") && !isLevel("WARN ") && !isLevel("TRACE ") {
		return l, false
	}
	l.said = line
	before := bytes.TrimRight(line[:at], " ")
	if i := bytes.LastIndexByte(before, '['); i >= 0 {
		before = bytes.TrimRight(before[:i], " ")
	}
	start := 1 + bytes.LastIndexByte(before, ' ')
	process := before[start:]
	colon := bytes.IndexByte(process, ':')
	if colon <= 0 {
		return l, true
	}
	if !h[string(process[:colon])] {
		if start == 0 || line[0] == '[' {
			h[string(process[:colon])] = true
		} else {
			for i := max(1, colon-longestHost); i < colon; i++ { // the longest that is known
				if h[string(process[i:colon])] {
					start, process = start+i, process[i:]
					break
				}
			}
		}
	}
	l.process = string(process)
	if line[0] != '[' { // newer logs begin with a time in brackets
		l.row, l.said = line[:start], line[start:]
	}
	return l, true
}

// LogApart is the error for a file with NCCL's log of a process and without its times, as NCCL_DEBUG_FILE writes it.
type LogApart struct {
	File    string
	Process string // host:pid
}

func (e *LogApart) Error() string {
	return fmt.Sprintf("%s: NCCL's log of %s without a time, as NCCL_DEBUG_FILE writes it (needed beside it: the "+
		"output of that run, which lists the process; tunefit profile prints what a job without nccl-tests ran)",
		e.File,
		e.Process)
}

// ProcessOf returns the process, as host:pid, whose log a file begins with; empty: it begins with something else.
func ProcessOf(head []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
	l, _ := hosts{}.split(line)
	return l.hostPID()
}

// hostPID is the process without the thread.
func (l *logLine) hostPID() string {
	parts := strings.SplitN(l.process, ":", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + ":" + parts[1]
}

// longestLine bounds what is kept of one line: a cpu mask or an environment may
// be long, a row never is.
const longestLine = 1 << 20

// readLine returns the next line, with its end. It is valid until the next one is read.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if line == nil && err != bufio.ErrBufferFull {
			return part, err
		}
		if len(line) < longestLine {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}
