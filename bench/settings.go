package bench

import (
	"fmt"
	"regexp"
	"strings"
)

// settings are the options of nccl-tests that times depend on; 0: not known, or nccl-tests' default.
type settings struct {
	Threads    int `json:"nthreads"` // of one process
	GPUs       int `json:"ngpus"`    // of one thread
	Iterations int `json:"iterations"`
	WarmUp     int `json:"warmup_iters"`
	Aggregated int `json:"aggregated_iterations"`
	Graph      int `json:"graph"` // launches of a CUDA graph
	// Only a command line tells these, apart from Blocking.
	Registered int `json:"-"` // how buffers are
	Blocking   int `json:"-"` // waits after each operation
	Average    int `json:"-"` // which rank's time counts
	CTAPolicy  int `json:"-"`
	Device     int `json:"-"` // kernels of nccl-tests' own instead of NCCL's
	Skew       int `json:"-"` // how far buffers are from being aligned
}

// options are those of settings on a command line, in its order.
var options = [...]struct {
	name, long string
	usual      int
}{
	{"-t", "nthreads", 0}, {"-g", "ngpus", 0}, {"-n", "iters", 0}, {"-w", "warmup_iters", 0}, {"-m", "agg_iters", 1},
	{"-G", "cudagraph", 0}, {"-R", "local_register", 0}, {"-z", "blocking", 0}, {"-a", "average", 1},
	{"-x", "cta_policy", 0}, {"-D", "device_implementation", 0}, {"unalign", "unalign", 0},
}

func (s *settings) values() [len(options)]*int {
	return [...]*int{&s.Threads, &s.GPUs, &s.Iterations, &s.WarmUp, &s.Aggregated, &s.Graph, &s.Registered, &s.Blocking,
		&s.Average, &s.CTAPolicy, &s.Device, &s.Skew}
}

var option = regexp.MustCompile(`(?:^|\s)(?:(-[A-Za-z])\s*|--([a-z_]+)[= ])([0-9]+)\b`)

// argsOf reads what follows the program's name.
func argsOf(line string) (s settings) {
	values := s.values()
	for _, m := range option.FindAllStringSubmatch(line, -1) {
		for i, o := range options {
			if m[1] == o.name || m[2] == o.long {
				*values[i] = atoi([]byte(m[3]))
			}
		}
	}
	return s
}

// fill takes what is not known from a command line.
func (s *settings) fill(args settings) {
	from := args.values()
	for i, into := range s.values() {
		if *into == 0 {
			*into = *from[i]
		}
	}
}

// untold reports whether there are options that no header shows.
func (s settings) untold() bool {
	return s.Registered > 0 || s.Blocking > 0 || s.Average > 1 || s.CTAPolicy > 0 || s.Device > 0
}

// String writes the options as on a command line, without unknown values and without nccl-tests' defaults.
func (s settings) String() string {
	text := ""
	for i, value := range s.values() {
		// Both are in each header. Of a program that does not print it, neither is known.
		if i < 2 && (s.Threads == 0 || s.GPUs == 0) {
			continue
		}
		if o := options[i]; *value != 0 && *value != o.usual {
			text += fmt.Sprintf(" %s %d", o.name, *value)
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
