// Package probe looks at a shared library: what it is, and which versions of the tuner ABI it has. It loads the library
// in a child process, so that it cannot harm the caller and its Go runtime cannot disturb the caller's. The child is
// this program again: a C constructor (probe.c) takes over before Go begins.
package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Library is what a shared library turned out to be.
type Library struct {
	Path    string         // where the dynamic loader found it
	NCCL    int            // what its ncclGetVersion says; 0: it has none
	NCCLX   bool           // it is Meta's NCCLX
	MSCCL   bool           // it has MSCCL, which takes collectives before a tuner is asked
	Tuners  map[int]string // the names of its tuner tables, by version of the ABI
	Version string         // of a tuner of this project; "" for others
}

// NotLoadedError is the dynamic loader's refusal.
type NotLoadedError struct{ Reason string }

func (e *NotLoadedError) Error() string { return e.Reason }

// Supported reports whether this build can load libraries: it takes cgo.
var Supported bool

// Open opens a library in a child process with the environment given, by name as
// dlopen does: without a slash the loader looks for it in that environment.
func Open(ctx context.Context, name string, environ []string) (*Library, error) {
	if !Supported {
		return nil, errors.New("this program was built without cgo and cannot load a library")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.CommandContext(ctx, self)
	child.Args = []string{"tunefit-library-probe", name}
	child.Env = environ
	// A process that it left may hold its output open, and on a busy machine reading takes time.
	child.WaitDelay = time.Second
	var out, said bytes.Buffer
	child.Stdout, child.Stderr = &out, &said
	err = child.Run()
	reason := strings.TrimSpace(said.String())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && child.ProcessState != nil && child.ProcessState.ExitCode() == 1 && reason != "":
		return nil, &NotLoadedError{reason}
	case err != nil:
		return nil, fmt.Errorf("the process that loaded it ended: %w", err)
	}
	return parseProbe(out.String()), nil
}

// parseProbe skips what a library may print by itself.
func parseProbe(text string) *Library {
	l := &Library{Tuners: map[int]string{}}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch number, what, _ := strings.Cut(rest, " "); word {
		case "path":
			l.Path = rest
		case "nccl":
			l.NCCL, _ = strconv.Atoi(rest)
		case "ncclx":
			l.NCCLX = true
		case "msccl":
			l.MSCCL = true
		case "tuner":
			if abi, err := strconv.Atoi(number); err == nil {
				l.Tuners[abi] = what
			}
		case "version":
			l.Version = rest
		}
	}
	return l
}
