package bench

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// failure is what a log says of a run that failed. The zero value is for one that
// did not, or that does not say so.
type failure struct {
	line    int    // from 1, of text; 0: none
	text    string // what ended the run
	warned  int    // line of warning; 0: none
	warning string // NCCL's first, which often names the cause
	// config is what the run was told to use, as "nvls/simple/16" or "tree/ll"; empty
	// where not all of it is known.
	config string
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

// read takes a line that is no row, and reports whether it says that the run failed.
func (f *failure) read(at int, line []byte) bool {
	f.warn(at, line)
	found := ends.Match(line)
	if found && f.line == 0 {
		f.text, f.line = quoted(line), at
	}
	return found
}

// warn keeps the first warning.
func (f *failure) warn(at int, line []byte) {
	if f.warned > 0 {
		return
	}
	if _, text, ok := bytes.Cut(line, []byte("NCCL WARN ")); ok {
		f.warning, f.warned = quoted(text), at
	}
}

// found reports whether a run of so many rows failed: it said so, or it measured
// nothing and warned.
func (f *failure) found(rows int) bool {
	if f.line == 0 && rows == 0 && f.warned > 0 {
		f.text, f.line, f.warning = f.warning, f.warned, ""
	}
	return f.line > 0
}

// byNCCL reports that NCCL refused what it was asked for, rather than the machine or its scheduler. That another
// process went away (ncclRemoteError) is no refusal.
func (f *failure) byNCCL() bool {
	return (f.warned > 0 || strings.Contains(f.text, "NCCL failure")) &&
		!strings.Contains(f.text, "remote process exited")
}

// said quotes the failure.
func (f *failure) said() string {
	s := fmt.Sprintf("%q", f.text)
	if f.warning != "" && !strings.Contains(f.text, f.warning) {
		s += fmt.Sprintf("; NCCL warned: %q", f.warning)
	}
	return s
}

// String says that the run failed, and that later runs leave it out.
func (f *failure) String() string {
	s := "the run failed: " + f.said()
	switch {
	case f.config == "":
	case !f.byNCCL():
		s += fmt.Sprintf("; tunefit sweep --dry-run --from this log does not ask for the rest of it again; if %s "+
			"cannot run here, --skip %s leaves it out", f.config, f.config)
	default:
		s += fmt.Sprintf("; tunefit sweep --dry-run --from this log or the sweep made of it leaves %s out", f.config)
	}
	return s
}
