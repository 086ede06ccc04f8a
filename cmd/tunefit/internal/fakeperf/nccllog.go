package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/host"
)

// ncclLog is NCCL's log of this process, in the form of 2.30.7 (src/debug.cc).
type ncclLog struct {
	out    io.Writer
	host   string
	level  int
	subsys subsys
}

// NCCL's levels.
const (
	levelVersion = iota + 1
	levelWarn
	levelInfo
)

type subsys int

const (
	subsysINIT subsys = 1 << iota
	subsysENV
	subsysTUNING
	subsysOther // of which nothing is printed here
	subsysALL   = subsysINIT | subsysENV | subsysTUNING
)

// openLog follows NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE.
func openLog(stdout io.Writer, hostName string) *ncclLog {
	l := &ncclLog{out: stdout, host: hostName, subsys: subsysINIT | subsysENV}
	switch strings.ToUpper(os.Getenv("NCCL_DEBUG")) {
	case "VERSION":
		l.level = levelVersion
	case "WARN":
		l.level = levelWarn
	case "INFO", "ABORT", "TRACE":
		l.level = levelInfo
	}
	if list := os.Getenv("NCCL_DEBUG_SUBSYS"); list != "" {
		l.subsys = parseSubsys(list)
	}
	if name := os.Getenv("NCCL_DEBUG_FILE"); name != "" && l.level > levelVersion {
		name = strings.NewReplacer("%%", "%", "%h", hostName, "%p", strconv.Itoa(os.Getpid())).Replace(name)
		if file, err := os.Create(name); err == nil { // else NCCL stays with its standard output
			l.out = file
		}
	}
	return l
}

// parseSubsys reads a list of names, all but them with a ^ before it.
func parseSubsys(list string) (set subsys) {
	list, inverted := strings.CutPrefix(list, "^")
	for name := range strings.SplitSeq(strings.ToUpper(list), ",") {
		switch name {
		case "INIT":
			set |= subsysINIT
		case "ENV":
			set |= subsysENV
		case "TUNING":
			set |= subsysTUNING
		case "ALL":
			set |= subsysALL
		default:
			set |= subsysOther
		}
	}
	if inverted {
		set = subsysALL &^ set
	}
	return set
}

func (l *ncclLog) process() string {
	return fmt.Sprintf("%s:%d:%d [0]", l.host, os.Getpid(), os.Getpid())
}

func (l *ncclLog) info(about subsys, format string, args ...any) {
	if l.level >= levelInfo && l.subsys&about != 0 {
		fmt.Fprintf(l.out, l.process()+" NCCL INFO "+format+"\n", args...)
	}
}

// warn is from a place in NCCL's sources.
func (l *ncclLog) warn(place, format string, args ...any) {
	if l.level >= levelWarn {
		fmt.Fprintf(l.out, "\n["+time.Now().Format(time.DateTime)+"] "+l.process()+" "+place+" NCCL WARN "+format+"\n",
			args...)
	}
}

// plugin logs what the tuner says. It may be of any subsystem: which one is not known.
func (l *ncclLog) plugin(line host.Line) {
	if line.Warn {
		l.warn("tuner", "%s", line.Text)
	} else {
		l.info(subsysALL|subsysOther, "%s", line.Text)
	}
}

// version is the line that comes first.
func (l *ncclLog) version(nccl string) {
	text := "NCCL version " + nccl + "+cuda13.0"
	switch l.level {
	case levelVersion, levelWarn:
		fmt.Fprintln(l.out, text)
	default:
		l.info(subsysALL|subsysOther, "%s", text)
	}
}

// environment are the variables that NCCL says it has taken.
func (l *ncclLog) environment() {
	for _, name := range []string{"NCCL_PROTO", "NCCL_ALGO"} {
		if value := os.Getenv(name); value != "" {
			l.info(subsysENV, "%s set by environment to %s", name, value)
		}
	}
	for _, name := range []string{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			l.info(subsysENV, "%s set by environment to %d.", name, n)
		}
	}
}
