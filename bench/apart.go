package bench

import (
	"bytes"
	"fmt"
	"strings"
)

// LogApart is the error for a file with NCCL's log of a process and without its times, as NCCL_DEBUG_FILE writes it.
type LogApart struct {
	File    string
	Process string // host:pid
}

func (e *LogApart) Error() string {
	return fmt.Sprintf("%s: NCCL's log of %s without a time, as NCCL_DEBUG_FILE writes it (needed beside it: the "+
		"output of that run, which lists the process)", e.File, e.Process)
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

// join reads NCCL's log of a process of the run, where that is in a file of its own.
func (t *text) join(process string) {
	if t.r.opts.LogOf == nil || process == "" || process == t.run.joined { // the ranks of a process follow each other
		return
	}
	log := t.r.opts.LogOf(process)
	if log == nil {
		return
	}
	t.run.joined = process
	for line := range bytes.Lines(log) {
		if l, ok := t.hosts.split(bytes.TrimRight(line, "\r\n")); ok && l.hostPID() == process {
			t.log(l)
			t.run.metadata.read(l.message)
		}
	}
}
