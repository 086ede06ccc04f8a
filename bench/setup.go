package bench

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Setup is where and with what a time was measured. A field is empty where the file does not say.
type Setup struct {
	GPU    string // the model as the driver names it; different ones as Hosts, joined by " + "
	Hosts  string // names, sorted, with blanks between; of many the first, and how many more
	NCCL   string // version, as "2.29.2"; RCCL's as "RCCL 2.26.6"
	Driver string // version, as "550.54.15"; else what it supports, as "CUDA 13.1" or "ROCm 7.0.2"
	Time   string // when the run began, as its file writes it
	Tuner  string // the tuner plugin that was loaded: the times are not those of NCCL's choice
	// Options are those of nccl-tests that change times, as "-t 1 -g 8 -n 20 -w 5 -G 10". Times under different ones
	// are not comparable.
	Options string
	// MinChannels and MinCTAs are NCCL_MIN_NCHANNELS and NCCL_MIN_CTAS, positive numbers: the communicator had that
	// many channels, and may have fewer without.
	MinChannels, MinCTAs string
	// Variables are those that change NCCL's choice, as "NCCL_NVLS_ENABLE=0 NCCL_NTHREADS=256": the choice under them
	// is not that of jobs without them.
	Variables string
}

// FakePerf is the GPU of runs that simulated nccl-tests made up (internal/testkit/fakeperf).
const FakePerf = "simulated nccl-tests (no GPU)"

// mostNames bounds the names that every row of a sweep repeats.
const mostNames = 16

// fields are those of the sweep format's columns from gpu_model on, in their order.
func (s *Setup) fields() []*string {
	return []*string{&s.GPU, &s.Hosts, &s.NCCL, &s.Driver, &s.Time, &s.Tuner, &s.Options, &s.MinChannels, &s.MinCTAs,
		&s.Variables}
}

// IsOurs reports whether our library was loaded.
func (s *Setup) IsOurs() bool { return strings.HasPrefix(s.Tuner, "nccl-tuner-go") }

// loadedTuner returns the value of NCCL_TUNER_PLUGIN, or nothing where the value means no tuner.
func loadedTuner(value string) string {
	if strings.EqualFold(value, "none") {
		return ""
	}
	return value
}

// versionOf turns NCCL_VERSION_CODE into text, and what is none into nothing.
func versionOf(code int) string {
	if code < 1000 || code >= 1e7 {
		return ""
	}
	return nccl.Version(code).String()
}

// clean is the setup as samples have it; nil: nothing is known.
func (s Setup) clean() *Setup {
	if s == (Setup{}) {
		return nil
	}
	for _, field := range s.fields() {
		*field = wording.Line(*field) // it is printed within lines
	}
	if strings.HasPrefix(s.GPU, "AMD ") && !nccl.IsRCCL(s.NCCL) { // rccl-tests prints its number as nccl-tests does
		s.NCCL = strings.TrimSpace("RCCL " + s.NCCL)
	}
	return &s
}

// joined lists names: of many the first, and how many more.
func joined(set map[string]bool, between string) string {
	names := slices.Sorted(maps.Keys(set))
	if more := len(names) - mostNames; more > 0 {
		names = append(names[:mostNames:mostNames], "and "+strconv.Itoa(more)+" more")
	}
	return strings.Join(names, between)
}

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

// RunsGraphs reports whether options of nccl-tests launch CUDA graphs.
func RunsGraphs(options string) bool { s := argsOf(options); return s.Graph > 0 }

// RanksPerProcess returns how many GPUs options of nccl-tests give a process, as "-t 2 -g 4" does; 0: they do not say.
func RanksPerProcess(options string) int {
	s := argsOf(options)
	if s.Threads == 0 && s.GPUs == 0 {
		return 0
	}
	return max(1, s.Threads) * max(1, s.GPUs)
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

// unsure ends a setting in the column of variables that is only mentioned.
const unsure = "?"

// IsVariable reports whether a name is that of a variable that times or NCCL's choice may depend on.
func IsVariable(name string) bool { return named.FindString(name) == name && name != "" }

// isVariable reports whether a word is of the column of variables.
func isVariable(word string) bool { return strings.HasSuffix(word, unsure) || named.MatchString(word) }

// channelKinds are what NCCL's variables count channels by: NCCL_MIN_NCHANNELS and so on.
var channelKinds = []string{"NCHANNELS", "CTAS"}

// channelRange returns what variables say of one kind: a least number, a most, or both; 0: nothing.
func channelRange(getenv func(string) string, kind string) (least, most int) {
	least, _ = strconv.Atoi(getenv("NCCL_MIN_" + kind))
	most, _ = strconv.Atoi(getenv("NCCL_MAX_" + kind))
	return max(0, least), max(0, most)
}

// ChannelBounds returns the variables that bound the channels of a communicator, with their values: a most number, and
// with it a smaller least one. Sites set such bounds for good, and below them NCCL chooses. All else that these
// variables can say forces a number.
func ChannelBounds(getenv func(string) string) (bounds map[string]string) {
	bounds = map[string]string{}
	for _, kind := range channelKinds {
		least, most := channelRange(getenv, kind)
		if least >= most {
			continue
		}
		bounds["NCCL_MAX_"+kind] = getenv("NCCL_MAX_" + kind)
		if least > 0 {
			bounds["NCCL_MIN_"+kind] = getenv("NCCL_MIN_" + kind)
		}
	}
	return bounds
}

// named are variables that times or NCCL's choice may depend on.
var named = regexp.MustCompile(`\b(?:(?:[NR]CCL|OFI_NCCL|FI|UCX)_[A-Z][A-Z0-9_]*|CUDA_VISIBLE_DEVICES)\b`)
