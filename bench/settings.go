package bench

import (
	"fmt"
	"slices"
)

// settings are the options of nccl-tests that times depend on.
type settings struct {
	threads, gpus           int // of one process
	iterations, warmUp      int
	aggregated, graph, skew int // -m, -G, and how far buffers are from being aligned
}

// String is as on a command line. It leaves out what is not known and nccl-tests' defaults.
func (s settings) String() string {
	text := fmt.Sprintf("-t %d -g %d", s.threads, s.gpus)
	for _, option := range []struct {
		name         string
		value, usual int
	}{{"-n", s.iterations, 0}, {"-w", s.warmUp, 0}, {"-m", s.aggregated, 1}, {"-G", s.graph, 0}, {"unalign", s.skew, 0}} {
		if option.value != 0 && option.value != option.usual {
			text += fmt.Sprintf(" %s %d", option.name, option.value)
		}
	}
	return text
}

// set keeps the options of a run.
func (u *run) set(r *Result, line int, s settings) {
	if s.graph > 0 {
		r.note(line, "times are those of CUDA graph launches (-G)")
	}
	if s.threads < 1 || s.gpus < 1 || s.threads > 1<<16 || s.gpus > 1<<16 {
		return
	}
	u.threads = s.threads * s.gpus
	if text := s.String(); s.iterations > 0 && !slices.Contains(r.Settings, text) {
		r.Settings = append(r.Settings, text)
	}
}
