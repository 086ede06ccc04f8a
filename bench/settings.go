package bench

import (
	"fmt"
	"regexp"
	"strings"
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
	testArgs
}

// testArgs are options that only a command line, or other lines of a log, tell.
type testArgs struct {
	Registered int `json:"-"` // -R: how buffers are registered
	Blocking   int `json:"-"` // -z: wait after each operation
	Average    int `json:"-"` // -a: which rank's time counts
}

var testArg = regexp.MustCompile(`(?:^|\s)(?:-([Rza]) *|--(local_register|blocking|average)[= ])([0-9]+)\b`)

// argsOf reads what follows the program's name.
func argsOf(line string) (a testArgs) {
	for _, m := range testArg.FindAllStringSubmatch(line, -1) {
		value := atoi([]byte(m[3]))
		switch m[1] + m[2] {
		case "R", "local_register":
			a.Registered = value
		case "z", "blocking":
			a.Blocking = value
		case "a", "average":
			a.Average = value
		}
	}
	return a
}

// String writes the options as on a command line, without unknown values and without nccl-tests' defaults.
func (s settings) String() string {
	text := ""
	if s.Threads > 0 && s.GPUs > 0 {
		text = fmt.Sprintf("-t %d -g %d", s.Threads, s.GPUs)
	}
	for _, option := range []struct {
		name         string
		value, usual int
	}{{"-n", s.Iterations, 0}, {"-w", s.WarmUp, 0}, {"-m", s.Aggregated, 1}, {"-G", s.Graph, 0},
		{"-R", s.Registered, 0}, {"-z", s.Blocking, 0}, {"-a", s.Average, 1}, {"unalign", s.Skew, 0}} {
		if option.value != 0 && option.value != option.usual {
			text += fmt.Sprintf(" %s %d", option.name, option.value)
		}
	}
	return strings.TrimSpace(text)
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
	u.settings = s
}
