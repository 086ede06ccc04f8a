package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

var (
	// headline is where a line of nccl-tests' header begins, whatever stands before it.
	headline = regexp.MustCompile(`# *(?:nThread [0-9]+ nGpus|Rank +[0-9]+ .* device|[nr]ccl-tests version|` +
		`Collective test starting:|Using devices|size +count +type|Out of bounds values|Avg bus bandwidth)`)
	// colour is what a terminal obeys and does not print.
	colour = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")
	// tableUnits are those of a table's columns, as in "time (us)".
	tableUnits = regexp.MustCompile(`\((?:B|us|GB/s|elements)\)`)
	// escaped are the ends of lines and quotes in a text that ansible prints as one line.
	escaped = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`)
)

// scanner parts lines from what launchers and collectors of logs put before them: a rank, a time, a host. It knows
// where a header, a row and a line of NCCL's log begin. What stands before them is a tag. It stands before all lines,
// with other numbers and words.
type scanner struct {
	tag string // the last one
	// hosts of NCCL's log and of the list of devices. They show where a row ends that has a line of the log glued to
	// it, such as "sum      -1node7:12:12 [0] NCCL INFO".
	hosts map[string]bool
}

// plain is a line without what a terminal, a collector of logs or Markdown adds. It may hold several lines.
func plain(line []byte) []byte {
	if at := bytes.Index(line, []byte(`{"`)); at >= 0 {
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
	if bytes.Contains(line, []byte(`\n#`)) {
		line = []byte(escaped.Replace(string(line)))
	}
	line = bytes.TrimRight(line, "\r\n")
	if n := len(line); n > 1 && line[0] == '|' && line[n-1] == '|' {
		line = tableUnits.ReplaceAll(bytes.ReplaceAll(line, []byte("|"), []byte(" ")), nil)
	}
	return line
}

// wrappers are the keys under which collectors of logs keep a line, each line in an object of JSON.
var wrappers = []string{"log", "message", "msg", "line", "textPayload", "MESSAGE", "@message", "body", "text",
	"payload", "content", "_raw", "event", "output", "data"}

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

// part parts a line from its tag.
func (s *scanner) part(line []byte) (tag, text []byte) {
	const longest = 512 // of a tag and a header
	n, isKnown := rowAt(line)
	if start := line[:min(len(line), longest)]; !isKnown {
		n = alike(s.tag, line)
		if bytes.IndexByte(start, '#') >= 0 {
			if at := headline.FindIndex(start); at != nil {
				n, isKnown = at[0], true
			}
		}
	}
	tag, text = bytes.TrimRight(line[:n], " "), line[n:]
	if isKnown && n <= longest && (len(tag) == 0 || alike(s.tag, tag) < len(tag)) {
		s.tag = string(tag)
	}
	// In JSON, a notebook or a list of ansible.
	if end := bytes.LastIndexByte(text, '"'); end >= 0 && bytes.HasSuffix(tag, []byte(`"`)) {
		text = bytes.TrimSuffix(text[:end], []byte(`\n`))
	}
	return bytes.TrimSpace(tag), s.untag(text)
}

// rowAt finds where a row begins: a size, a count and a type that nccl-tests has.
func rowAt(line []byte) (at int, ok bool) {
	const most = 16 // words before the type
	var starts [2]int
	numbers, i := 0, 0
	for range most {
		for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
			i++
		}
		start := i
		for i < len(line) && line[i] != ' ' && line[i] != '\t' {
			i++
		}
		switch word := line[start:i]; {
		case len(word) == 0:
			return 0, false
		case isNumber(word):
			starts[0], starts[1] = starts[1], start
			numbers++
		case numbers >= 2 && elementSize[string(word)] > 0:
			return starts[0], true
		default:
			numbers = 0
		}
	}
	return 0, false
}

// alike returns how many bytes a line begins with that are a tag but for its numbers, words and blanks.
func alike(tag string, line []byte) (n int) {
	for i := 0; i < len(tag); {
		kind := kindOf(tag[i])
		if n == len(line) || kindOf(line[n]) != kind {
			return 0
		}
		isRun := kind == '0' || kind == 'a' || kind == ' '
		for i++; isRun && i < len(tag) && kindOf(tag[i]) == kind; i++ {
		}
		for n++; isRun && n < len(line) && kindOf(line[n]) == kind; n++ {
		}
	}
	return n
}

// kindOf is 0 for digits, a for letters and a blank for blanks.
func kindOf(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return '0'
	case 'a' <= c|' ' && c|' ' <= 'z':
		return 'a'
	case c == '\t':
		return ' '
	}
	return c
}

// untag blanks the tag within a line: nccl-tests writes a row in pieces, and a launcher puts its tag before each.
func (s *scanner) untag(row []byte) []byte {
	if strings.HasSuffix(s.tag, ":") { // as srun's
		row = bytes.ReplaceAll(row, []byte(" "+strings.TrimSpace(s.tag)+" "), []byte(" "))
	}
	if !strings.Contains(s.tag, "]") || bytes.IndexByte(row, ']') < 0 {
		return row
	}
	bare := make([]byte, 0, len(row))
	for i := 0; i < len(row); {
		if n := alike(s.tag, row[i:]); n > 0 {
			bare, i = append(bare, ' '), i+n
		} else {
			bare, i = append(bare, row[i]), i+1
		}
	}
	return bare
}

// logLine is a line of NCCL's debug log, and what stands before it: a piece of a row that was printed without a line's
// end.
type logLine struct {
	row  []byte // may be blank
	host []byte // host:pid; nil: the line does not say
	said []byte // the line without that piece
}

// log reads such a line.
func (s *scanner) log(line []byte) (l logLine, ok bool) {
	at := bytes.Index(line, []byte("NCCL "))
	if at < 0 {
		return l, false
	}
	if level, _, _ := bytes.Cut(line[at+len("NCCL "):], []byte(" ")); string(level) != "INFO" &&
		string(level) != "WARN" && string(level) != "TRACE" {
		return l, false
	}
	l.said = line
	head := line[:at]
	if i := bytes.LastIndexByte(head, '['); i >= 0 {
		head = head[:i]
	}
	head = bytes.TrimRight(head, " ") // that ends with host:pid:tid
	tid := bytes.LastIndexByte(head, ':')
	if tid < 0 {
		return l, true
	}
	colon := bytes.LastIndexByte(head[:tid], ':')
	if colon < 0 || !isNumber(head[colon+1:tid]) {
		return l, true
	}
	start := colon
	for start > max(0, colon-longestHost) && isOfHost(head[start-1]) {
		start--
	}
	if isKnown := s.hosts[string(head[start:colon])]; !isKnown && len(bytes.TrimSpace(head[:start])) == 0 {
		s.hosts[string(head[start:colon])] = true
	} else if !isKnown {
		for i := start + 1; i < colon; i++ { // the longest that is known
			if s.hosts[string(head[i:colon])] {
				start = i
				break
			}
		}
	}
	l.host = head[start:tid]
	if line[0] != '[' { // newer logs begin with a time in brackets
		l.row, l.said = line[:start], line[start:]
	}
	return l, true
}

// longestHost is HOST_NAME_MAX of Linux, in bytes.
const longestHost = 64

func isOfHost(c byte) bool {
	return kindOf(c) == '0' || kindOf(c) == 'a' || c == '-' || c == '.' || c == '_'
}

// LogApart is the error for a file with NCCL's log of a process and without its times, as NCCL_DEBUG_FILE writes it.
type LogApart struct {
	File    string
	Process string // host:pid
}

func (e *LogApart) Error() string {
	return fmt.Sprintf("%s: NCCL's log of %s without a time, as NCCL_DEBUG_FILE writes it (needed beside it: the "+
		"output of that run, which lists the process; tunefit profile prints what a job without nccl-tests ran)",
		e.File, e.Process)
}

// ProcessOf returns the process, as host:pid, whose log a file begins with; empty: it begins with something else.
func ProcessOf(head []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
	l, _ := (&scanner{hosts: map[string]bool{}}).log(line)
	return string(l.host)
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
