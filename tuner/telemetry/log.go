package telemetry

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Level is a severity of NCCL's logger.
type Level int

const (
	Warn Level = 2 // what the user must fix; shown with NCCL_DEBUG=WARN or more
	Info Level = 3 // shown with NCCL_DEBUG=INFO
)

// Log writes through NCCL's logger. The zero value drops everything, because NCCL may give no logger and the
// plugin must not print in any other way. Log escapes what is not printable.
type Log struct {
	// Emit gets one line of text and the place in the source it comes from.
	Emit func(level Level, file string, line int, text string)

	subject string // in front of each line
}

// Event logs a line that programs read, too.
func (l Log) Event(level Level, e record.Event) {
	if l.Emit != nil {
		_, file, line, _ := runtime.Caller(1)
		l.Emit(level, filepath.Base(file), line, record.Line(e))
	}
}

// Warnf logs what the user must fix.
func (l Log) Warnf(format string, args ...any) { l.emit(Warn, format, args) }

// Infof logs what a user may want to know.
func (l Log) Infof(format string, args ...any) { l.emit(Info, format, args) }

// About returns a log whose lines begin with what they are about.
func (l Log) About(subject string) Log {
	l.subject = subject + ": "
	return l
}

// Once calls say once per process: for the first caller that has a logger.
func (l Log) Once(once *sync.Once, say func()) (said bool) {
	if l.Emit == nil {
		return false
	}
	once.Do(func() {
		said = true
		say()
	})
	return said
}

func (l Log) emit(level Level, format string, args []any) {
	if l.Emit == nil {
		return
	}
	for i, arg := range args {
		if s, ok := arg.(string); ok { // a file's name, say; an error may have several lines
			args[i] = wording.Line(s)
		}
	}
	_, file, line, _ := runtime.Caller(2)
	l.Emit(level, filepath.Base(file), line, wording.Text(record.Prefix+l.subject+fmt.Sprintf(format, args...)))
}
