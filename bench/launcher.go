package bench

import (
	"bytes"
	"regexp"
)

// launched is what a launcher puts before each line of a process: "[1,0]<stdout>:" (Open MPI),
// "[prterun-host-1@1,0]<stdout>: " (PRRTE), " 0: " (srun -l) and "[0] " (Hydra). A row has no colon after its first
// number, and "[0] NCCL INFO" in NCCL's own lines is not at their start.
var launched = regexp.MustCompile(`^ *(?:\[[^\]]*\]<std(?:out|err|diag)>:|\[[0-9]+\] |[0-9]{1,7}:(?: |$))`)

// stripLauncher removes that. Launchers may be nested.
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

func digits(s []byte) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// logLine is a line of NCCL's debug log, and the piece of a result row that was
// printed before it without a line's end.
type logLine struct {
	row     []byte // may be blank
	process string // host:pid:tid
	message []byte
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
	switch {
	case bytes.HasPrefix(level, []byte("INFO ")), bytes.HasPrefix(level, []byte("WARN ")):
		l.message = level[5:]
	case bytes.HasPrefix(level, []byte("TRACE ")):
		l.message = level[6:]
	default:
		return l, false
	}
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
		l.row = line[:start]
	}
	return l, true
}
