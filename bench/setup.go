package bench

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
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

// runMetadata collects what the lines of one run tell of its setup and of its end.
type runMetadata struct {
	Setup
	gpus    map[string]bool
	failure failure
}

var (
	// "NCCL version 2.29.2+cuda13.1", "RCCL version : 2.26.6-Unknown".
	ncclVersion = regexp.MustCompile(`\b([NR])CCL version *:? *([0-9]+\.[0-9]+(?:\.[0-9]+)?)`)
	// The line that nccl-tests begins with: nccl-library=22902.
	libraryCode = regexp.MustCompile(`\bnccl-library=([0-9]+)`)
	cudaDriver  = regexp.MustCompile(`\bcudaDriverVersion ([0-9]+)`)
	driver      = regexp.MustCompile(`\b(?:Driver Version: *|(ROCm) version *: *)([0-9]+\.[0-9.]+)`)
	// What NCCL 2.19 on says when it loads a tuner: "Using tuner plugin: 'Example'" (2.19),
	// "TUNER/Plugin: Using tuner plugin Example" (2.21), "TUNER/Plugin: Using Example (v5)" (2.28),
	// RCCL's own since 2026.
	tunerLine = regexp.MustCompile(
		`\bUsing tuner plugin:? +'?([^'\s]+)|\bTUNER/Plugin: Using (\S+) \(v[0-9]+\)|` +
			`\bSuccessfully loaded external tuner plugin (\S+)|TUNER_PLUGIN set to (\S+)|` +
			`Using (built-in CSV tuner)|TUNER/(CsvTuner): Applied`)
	dateTime = regexp.MustCompile(`20[0-9]{2}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-5][0-9]`)
)

// read takes a line of a log that is no row.
func (f *runMetadata) read(line []byte) {
	if bytes.Contains(line, []byte("ersion")) || bytes.Contains(line, []byte("nccl-library=")) {
		f.versions(line)
	}
	if bytes.Contains(line, []byte("uner plugin")) || bytes.Contains(line, []byte("CSV tuner")) ||
		bytes.Contains(line, []byte("TUNER")) {
		f.tuner(line)
	}
	f.timed(line)
}

func (f *runMetadata) versions(line []byte) {
	if m := ncclVersion.FindSubmatch(line); m != nil {
		f.NCCL = quoted(m[2])
		if m[1][0] == 'R' {
			f.NCCL = "RCCL " + f.NCCL
		}
	} else if m := libraryCode.FindSubmatch(line); m != nil && f.NCCL == "" {
		f.NCCL = versionOf(atoi(m[1]))
	}
	if m := driver.FindSubmatch(line); m != nil {
		f.Driver = strings.TrimSpace(string(m[1]) + " " + quoted(m[2]))
	} else if m := cudaDriver.FindSubmatch(line); m != nil && f.Driver == "" {
		n := atoi(m[1])
		f.Driver = fmt.Sprintf("CUDA %d.%d", n/1000, n%1000/10)
	}
}

// IsOurs reports whether our library was loaded.
func (s *Setup) IsOurs() bool { return strings.HasPrefix(s.Tuner, "nccl-tuner-go") }

// missedTuner reports that NCCL's log names our tuner as the one to load, and NCCL did not load it.
func (f *runMetadata) missedTuner(v variables) bool {
	return strings.Contains(v.get("NCCL_TUNER_PLUGIN"), "nccl-tuner-go") && !f.IsOurs()
}

func (f *runMetadata) tuner(line []byte) {
	if bytes.Contains(line, []byte(record.Prefix)) {
		name := "nccl-tuner-go"
		e, _ := record.ReadEvent(line)
		if s, is := e.(*record.Start); is && s.Library != "" {
			name += " " + s.Library
		}
		if len(name) > len(f.Tuner) || !f.IsOurs() {
			f.Tuner = name
		}
		return
	}
	if m := tunerLine.FindSubmatch(line); m != nil && f.Tuner == "" {
		f.Tuner = loadedTuner(quoted(bytes.Join(m[1:], nil)))
	}
}

// loadedTuner returns the value of NCCL_TUNER_PLUGIN, or nothing where the value means no tuner.
func loadedTuner(value string) string {
	if strings.EqualFold(value, "none") {
		return ""
	}
	return value
}

// timed keeps the first time that a line shows.
func (f *runMetadata) timed(line []byte) {
	if f.Time == "" && bytes.IndexByte(line, ':') > 0 { // rows have none, unless they have a time
		f.Time = string(dateTime.Find(line))
	}
}

// gpu takes the end of a line of the list of devices: "[0000:1b:00] NVIDIA H100 80GB HBM3".
func (f *runMetadata) gpu(name string) {
	if name = quoted([]byte(name)); name == "" {
		return
	}
	if f.gpus == nil {
		f.gpus = map[string]bool{}
	}
	if name == "stand-in (no GPU)" { // what earlier releases wrote
		name = FakePerf
	}
	f.gpus[name] = true
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

// setup is what is known at a run's end; nil: nothing.
func (u *run) setup(unknown []mention) *Setup {
	if !u.inherited {
		u.metadata.GPU, u.metadata.Hosts = joined(u.metadata.gpus, " + "), joined(u.devices.hosts, " ")
	}
	s := u.metadata.Setup
	if s.Tuner == "" {
		s.Tuner = loadedTuner(u.variables.get("NCCL_TUNER_PLUGIN"))
	}
	for name, into := range map[string]*string{"NCCL_MIN_NCHANNELS": &s.MinChannels, "NCCL_MIN_CTAS": &s.MinCTAs} {
		if n, err := strconv.Atoi(u.variables.get(name)); err == nil && n > 0 {
			*into = strconv.Itoa(n)
		}
	}
	u.settings.fill(u.mentions.args)
	s.Options, s.Variables = u.settings.String(), u.variables.changing(unknown)
	return s.clean()
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
