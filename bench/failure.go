package bench

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// failure is what a log says of a run that failed. The zero value is for one that
// did not, or that does not say so.
type failure struct {
	line    int    // from 1, of text; 0: none
	text    string // what ended the run
	warned  int    // line of warning; 0: none
	warning string // NCCL's first, which often names the cause
}

// ends match what nccl-tests, the shell, the loader, Slurm and MPI print when a run fails.
var ends = regexp.MustCompile(
	`Test (?:NCCL |CUDA )?failure\b.*|Test timeout \(.*|error while loading shared libraries.*|` +
		`\bcommand not found\b.*|` +
		`(?i:segmentation fault|bus error|illegal instruction|out of memory)\b.*|DUE TO TIME LIMIT.*|` +
		`^(?:srun|slurmstepd|mpirun|prterun|prun|mpiexec): error:.*|noticed that process rank.*|` +
		`(?:ORTE|PRTE) has lost communication.*|There are not enough slots.*|` +
		`_perf(?:_mpi)?: No such file or directory|` +
		`^(?:Killed|Aborted|Terminated)\b.*|No CUDA-capable device.*|no CUDA-capable device.*`)

// scan takes a line that is no row, and reports whether it says that the run failed. isLog: it is NCCL's.
func (f *failure) scan(at int, line []byte, isLog bool) bool {
	if _, text, ok := bytes.Cut(line, []byte("NCCL WARN ")); ok && f.warned == 0 {
		f.warning, f.warned = quoted(text), at
	}
	found := !isLog && ends.Match(line)
	if found && f.line == 0 {
		f.text, f.line = quoted(line), at
	}
	return found
}

// of is the failure of a run of so many rows: it said so, or it measured nothing and warned.
func (f failure) of(rows int) failure {
	if f.line == 0 && rows == 0 && f.warned > 0 {
		f.text, f.line, f.warning = f.warning, f.warned, ""
	}
	return f
}

// byNCCL reports that NCCL refused what it was asked for, rather than the machine or its scheduler. That another
// process went away (ncclRemoteError) is no refusal.
func (f failure) byNCCL() bool {
	return (f.warned > 0 || strings.Contains(f.text, "NCCL failure")) &&
		!strings.Contains(f.text, "remote process exited")
}

// said quotes the failure.
func (f failure) said() string {
	s := fmt.Sprintf("%q", f.text)
	if f.warning != "" && !strings.Contains(f.text, f.warning) {
		s += fmt.Sprintf("; NCCL warned: %q", f.warning)
	}
	return s
}

// advice says that a run failed, and that later runs leave out what it was told to use.
func (f failure) advice(asked nccl.Config) string {
	s := "the run failed: " + f.said()
	switch {
	case !asked.Known():
		return s
	case f.byNCCL():
		return s + fmt.Sprintf(noteRefused, asked.Label())
	}
	return s + fmt.Sprintf(noteBrokeOff, asked.Label(), asked.Label())
}
