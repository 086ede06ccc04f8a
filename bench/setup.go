package bench

import (
	"maps"
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

// mentioning is the setup with what a file only mentions.
func (s *Setup) mentioning(unknown string) *Setup {
	more := *s
	more.Variables = strings.TrimSpace(more.Variables + " " + unknown)
	return &more
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
