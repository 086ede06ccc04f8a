package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/host"
)

// ncclLog is NCCL's log of this process, in the form of 2.30.7 (src/debug.cc).
type ncclLog struct {
	print        func(format string, args ...any)
	process      string // that begins each line
	warns, infos bool
	subsystems   []string
}

// openLog follows NCCL_DEBUG and NCCL_DEBUG_SUBSYS.
func openLog(print func(string, ...any), hostName string) *ncclLog {
	l := &ncclLog{print: print, process: fmt.Sprintf("%s:%d:%d [0]", hostName, os.Getpid(), os.Getpid())}
	switch strings.ToUpper(os.Getenv("NCCL_DEBUG")) {
	case "WARN":
		l.warns = true
	case "INFO", "ABORT", "TRACE":
		l.warns, l.infos = true, true
	}
	l.subsystems = strings.Split(strings.ToUpper(cmp.Or(os.Getenv("NCCL_DEBUG_SUBSYS"), "INIT,ENV")), ",")
	return l
}

// info prints a line about a subsystem, or about two with a comma between.
func (l *ncclLog) info(about, format string, args ...any) {
	shown := func(name string) bool { return slices.Contains(l.subsystems, name) }
	if l.infos && (shown("ALL") || slices.ContainsFunc(strings.Split(about, ","), shown)) {
		l.print(l.process+" NCCL INFO "+format+"\n", args...)
	}
}

// warn is from a place in NCCL's sources.
func (l *ncclLog) warn(place, format string, args ...any) {
	if l.warns {
		l.print("\n["+time.Now().Format(time.DateTime)+"] "+l.process+" "+place+" NCCL WARN "+format+"\n", args...)
	}
}

// plugin logs what the tuner says. It shows INFO lines of all subsystems, since the host does not tell which one it is.
func (l *ncclLog) plugin(line host.Line) {
	switch {
	case line.Warn:
		l.warn("tuner", "%s", line.Text)
	case l.infos:
		l.print("%s NCCL INFO %s\n", l.process, line.Text)
	}
}

// version is the line that comes first.
func (l *ncclLog) version(s *settings) {
	begin := ""
	if l.infos {
		begin = l.process + " NCCL INFO "
	}
	switch {
	case l.warns && s.rccl:
		l.print("%sRCCL version : %s-Unknown\n", begin, s.nccl)
	case l.warns:
		l.print("%sNCCL version %s+cuda13.0\n", begin, s.nccl)
	}
}

// environment are the variables that NCCL says it has taken.
func (l *ncclLog) environment(effects []effect) {
	names := []string{"NCCL_PROTO", "NCCL_ALGO"}
	for _, e := range effects { // it does not tell those of libraries beneath it
		if strings.HasPrefix(e.name, "NCCL_") && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			l.info("ENV", "%s set by environment to %s", name, value)
		}
	}
	for _, name := range []string{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			l.info("ENV", "%s set by environment to %d.", name, n)
		}
	}
}
