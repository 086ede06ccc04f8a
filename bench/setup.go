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

// settings are options of nccl-tests that times depend on, by their names on a command line.
type settings map[string]int

// option is one of them: its names on a command line, in nccl-tests' header and in its JSON, and the value that
// nccl-tests has by default (-1: it is written whatever it is).
type option struct {
	name, long, header, json string
	usual                    int
}

var options = [...]option{
	{"-t", "nthreads", "nThread", "nthreads", -1}, {"-g", "ngpus", "nGpus", "ngpus", -1},
	{"-n", "iters", "iters:", "iterations", -1}, {"-w", "warmup_iters", "warmup iters:", "warmup_iters", -1},
	{"-m", "agg_iters", "agg iters:", "aggregated_iterations", 1}, {"-G", "cudagraph", "graph:", "graph", 0},
	{"-R", "local_register", "", "", 0}, {"-z", "blocking", "", "", 0}, {"-a", "average", "", "", 1},
	{"-x", "cta_policy", "", "", 0}, {"-D", "device_implementation", "", "", 0},
	{"unalign", "unalign", "unalign:", "", 0}, {"-C", "report_cputime", "", "", 0},
}

var (
	onCommand = regexp.MustCompile(`(?:^|\s)(-[A-Za-z]\s*|--[a-z_]+[= ])([0-9]+)\b`)
	inHeader  = regexp.MustCompile(`(?:^|\s)((?:warmup |agg )?iters:|nThread|nGpus|graph:|unalign:) *([0-9]+)\b`)
)

// settingsOf reads what an expression finds, the names and values of options.
func settingsOf(line string, found *regexp.Regexp) settings {
	s := settings{}
	for _, m := range found.FindAllStringSubmatch(line, -1) {
		name := strings.Trim(m[1], "- =\t")
		for _, o := range options {
			if name == o.header || name == o.long || name == strings.Trim(o.name, "-") {
				s[o.name] = atoi(m[2])
			}
		}
	}
	return s
}

// usualOf is the value that an option has where nobody gives it.
func usualOf(name string) (value int, isOption bool) {
	i := slices.IndexFunc(options[:], func(o option) bool { return o.name == name })
	if i < 0 {
		return 0, false
	}
	return options[i].usual, true
}

// perProcess returns how many GPUs a process has; 0: that is not known.
func (s settings) perProcess() int {
	const most = 1 << 16
	if s["-t"] == 0 && s["-g"] == 0 || max(s["-t"], s["-g"]) > most {
		return 0
	}
	return max(1, s["-t"]) * max(1, s["-g"])
}

// RunsGraphs reports whether options of nccl-tests launch CUDA graphs.
func RunsGraphs(options string) bool { return settingsOf(options, onCommand)["-G"] > 0 }

// RanksPerProcess returns how many GPUs options of nccl-tests give a process, as "-t 2 -g 4" does; 0: they do not say.
func RanksPerProcess(options string) int { return settingsOf(options, onCommand).perProcess() }

// String writes the options as on a command line, without nccl-tests' defaults.
func (s settings) String() string {
	text := ""
	for _, o := range options {
		if n, told := s[o.name]; told && n != o.usual {
			text += fmt.Sprintf(" %s %d", o.name, n)
		}
	}
	return strings.TrimSpace(text)
}

// variables are what is known of the environment of a run, by full name: NCCL's log, the env of nccl-tests' JSON and
// the user tell. All else that a text says of variables is a mention.
type variables map[string]string

// with returns a map and more.
func with[M ~map[string]V, V any](m, more M) M {
	all := maps.Clone(m)
	if all == nil {
		all = M{}
	}
	maps.Copy(all, more)
	return all
}

func (v variables) get(name string) string { return v[name] }

// changing lists the variables that change times or NCCL's choice, as on a command line, what a setting unset, and what
// is only mentioned.
func (v variables) changing(mentioned []string, setting variables) string {
	found := map[string]bool{}
	for name, value := range setting {
		if value == "" && v[name] == "" {
			found[name+"="] = true
		}
	}
	for name, value := range ChannelBounds(v.get) {
		found[name+"="+value] = true
	}
	for name, value := range v {
		isDefault := value == "" || value == "0" && strings.HasSuffix(name, "_DISABLE")
		if StaysWithTimes(name) && !isDefault {
			found[name+"="+strings.ReplaceAll(value, " ", "_")] = true
		}
	}
	for _, m := range mentioned {
		found[m] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

var (
	// named are variables that times or NCCL's choice may depend on.
	named = regexp.MustCompile(`\b(?:(?:[NR]CCL|OFI_NCCL|FI|UCX)_[A-Z][A-Z0-9_]*|CUDA_VISIBLE_DEVICES)\b`)
	// chooses are variables that choose instead of NCCL.
	chooses = regexp.MustCompile(`^NCCL_(?:ALGO|PROTO|M(?:IN|AX)_(?:NCHANNELS|CTAS)|TUNER_PLUGIN|DEBUG_FILE)$`)
	// harmless are variables that change no time and no choice.
	harmless = regexp.MustCompile(`^(?:FI_LOG_|UCX_LOG_|[NR]CCL_(?:DEBUG|TESTS_|VERSION|HOME|ROOT|DIR|PATH|LIB|` +
		`INCLUDE|BUILD|SRC|CFLAGS|LDFLAGS|CONF|TOPO_DUMP|GRAPH_DUMP|TUNER_|PROFIL|INSPECTOR|RAS_|COMM_ID|ASYNC_ERROR|` +
		`BLOCKING_WAIT|SET_THREAD|NVTX|REPORT|WARN|INFO|TRACE|TIMEOUT))`)
)

// SettingOf reads a setting, NAME=VALUE with blanks between; of an empty value: it is unset.
func SettingOf(text string) map[string]string {
	setting := map[string]string{}
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		setting[name] = value
	}
	return setting
}

// StaysWithTimes reports whether a variable is kept with the times that were measured under it: it may change them, and
// it does not choose instead of NCCL.
func StaysWithTimes(name string) bool {
	return named.MatchString(name) && !chooses.MatchString(name) && !harmless.MatchString(name)
}

// unsure ends a setting in the column of variables that is only mentioned.
const unsure = "?"

// IsSetting reports whether a name is that of a variable that times or NCCL's choice may depend on, or of an option of
// nccl-tests, as -R.
func IsSetting(name string) bool {
	_, isOption := usualOf(name)
	return isOption || name != "" && named.FindString(name) == name
}

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

// saysChannels reports whether variables say how many channels there are at least or at most, and whether they force
// some.
func (v variables) saysChannels() (says, forces bool) {
	for _, kind := range channelKinds {
		least, most := channelRange(v.get, kind)
		says = says || least > 0 || most > 0
		forces = forces || least > 0 && least >= most
	}
	return says, forces
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
