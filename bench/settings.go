package bench

import (
	"fmt"
	"slices"
)

// settings are the options of nccl-tests that times depend on.
type settings struct {
	Threads    int `json:"nthreads"` // of one process
	GPUs       int `json:"ngpus"`    // of one thread
	Iterations int `json:"iterations"`
	WarmUp     int `json:"warmup_iters"`
	Aggregated int `json:"aggregated_iterations"` // -m
	Graph      int `json:"graph"`                 // -G
	Skew       int `json:"-"`                     // how far buffers are from being aligned
}

// String writes the options as on a command line, without unknown values and without nccl-tests' defaults.
func (s settings) String() string {
	text := fmt.Sprintf("-t %d -g %d", s.Threads, s.GPUs)
	for _, option := range []struct {
		name         string
		value, usual int
	}{{"-n", s.Iterations, 0}, {"-w", s.WarmUp, 0}, {"-m", s.Aggregated, 1}, {"-G", s.Graph, 0},
		{"unalign", s.Skew, 0}} {
		if option.value != 0 && option.value != option.usual {
			text += fmt.Sprintf(" %s %d", option.name, option.value)
		}
	}
	return text
}

// set keeps the options of a run.
func (u *run) set(r *Result, line int, s settings) {
	if s.Graph > 0 {
		r.note(line, "times are those of CUDA graph launches (-G)")
	}
	if s.Threads < 1 || s.GPUs < 1 || s.Threads > 1<<16 || s.GPUs > 1<<16 {
		return
	}
	u.threads = s.Threads * s.GPUs
	const most = 64 // a sweep has one or two
	if text := s.String(); s.Iterations > 0 && len(r.Settings) < most && !slices.Contains(r.Settings, text) {
		r.Settings = append(r.Settings, text)
	}
}
