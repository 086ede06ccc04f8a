package sweep

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
)

// What a shell ends with that cannot start a program.
const (
	notExecutable = 126
	notFound      = 127
)

// setUp says what of the set-up is wrong, by a run that every other one would be like, and what mends it; empty: nothing.
func (s *Sweep) setUp(r *Run, code int, found *bench.Result, text []byte) (problem, mend string) {
	switch {
	case code == notExecutable || code == notFound:
		return "the program could not be started: " + lastLine(text),
			"--perf-dir names the folder of nccl-tests' programs, as all nodes see it"
	case found != nil && found.NotLoaded():
		return fmt.Sprintf("NCCL did not load the tuner library %s", s.Library),
			"NCCL says there why; --plugin names the library, --by environment does without"
	case found == nil || s.journal.start(r).Policy != "":
		return "", ""
	}
	i := slices.IndexFunc(found.Samples, func(m bench.Sample) bool { return m.Selection != bench.SelectionDefault })
	if i < 0 {
		return "", ""
	}
	by := "variables"
	if setup := found.Samples[i].Setup; setup != nil && setup.Tuner != "" {
		by = "the tuner " + setup.Tuner
	}
	return "this run is to measure NCCL's own choice, and " + by + " decided",
		"NCCL says there which are set; look into /etc/nccl.conf and ~/.nccl.conf, too"
}
