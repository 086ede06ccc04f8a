package bench

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// settings are what is known of how a run was set: NCCL's variables by their full names, and options of nccl-tests, as
// -n. A value is empty where something is known not to be set. NCCL's log, nccl-tests' header and JSON, tunefit sweep
// and the user tell. All else that a text says is a mention.
type settings map[string]string

// option is one of nccl-tests that times depend on: its names on a command line, in nccl-tests' header and in its JSON,
// and the value that nccl-tests has by default ("": it is written whatever it is).
type option struct{ name, long, header, json, usual string }

var options = [...]option{
	{"-t", "nthreads", "nThread", "nthreads", ""}, {"-g", "ngpus", "nGpus", "ngpus", ""},
	{"-n", "iters", "iters:", "iterations", ""}, {"-w", "warmup_iters", "warmup iters:", "warmup_iters", ""},
	{"-m", "agg_iters", "agg iters:", "aggregated_iterations", "1"}, {"-G", "cudagraph", "graph:", "graph", "0"},
	{"-R", "local_register", "", "", "0"}, {"-z", "blocking", "", "", "0"}, {"-a", "average", "", "", "1"},
	{"-x", "cta_policy", "", "", "0"}, {"-D", "device_implementation", "", "", "0"},
	{"unalign", "unalign", "unalign:", "", "0"}, {"-C", "report_cputime", "", "", "0"},
}

// optionNamed finds the option of a name on a command line; nil: it is none.
func optionNamed(name string) *option {
	i := slices.IndexFunc(options[:], func(o option) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return &options[i]
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
				s[o.name] = strconv.Itoa(atoi(m[2]))
			}
		}
	}
	return s
}

// with returns settings and more.
func (s settings) with(more settings) settings {
	all := settings{}
	maps.Copy(all, s)
	maps.Copy(all, more)
	return all
}

// perProcess returns how many GPUs a process has; 0: that is not known.
func (s settings) perProcess() int {
	const most = 1 << 16
	threads, gpus := atoi(s["-t"]), atoi(s["-g"])
	if threads == 0 && gpus == 0 || max(threads, gpus) > most {
		return 0
	}
	return max(1, threads) * max(1, gpus)
}

// RunsGraphs reports whether options of nccl-tests launch CUDA graphs.
func RunsGraphs(options string) bool { return atoi(settingsOf(options, onCommand)["-G"]) > 0 }

// RanksPerProcess returns how many GPUs options of nccl-tests give a process, as "-t 2 -g 4" does; 0: they do not say.
func RanksPerProcess(options string) int { return settingsOf(options, onCommand).perProcess() }

// options writes the options as on a command line, without nccl-tests' defaults.
func (s settings) options() string {
	text := ""
	for _, o := range options {
		if v := s[o.name]; v != "" && v != o.usual {
			text += " " + o.name + " " + v
		}
	}
	return strings.TrimSpace(text)
}

// variables lists those that change times or NCCL's choice, as on a command line, with what a sweep unset.
func (s settings) variables(bySweep settings) (all []string) {
	bounds := ChannelBounds(s.get)
	for name, value := range s {
		_, unset := bySweep[name]
		isDefault := value == "" && !unset || value == "0" && strings.HasSuffix(name, "_DISABLE")
		if bounds[name] != "" || StaysWithTimes(name) && !isDefault {
			all = append(all, name+"="+strings.ReplaceAll(value, " ", "_"))
		}
	}
	return all
}

// forceCell reports whether NCCL_ALGO or NCCL_PROTO is set.
func (s settings) forceCell() bool { return s["NCCL_ALGO"]+s["NCCL_PROTO"] != "" }

func (s settings) get(name string) string { return s[name] }

// config is what NCCL's variables choose for a collective.
func (s settings) config(op operation) nccl.Config {
	algo, proto := onlyChoice(s["NCCL_ALGO"], string(op)), onlyChoice(s["NCCL_PROTO"], string(op))
	c := nccl.Config{Cell: alone(CellNamed(algo, proto))}
	for _, kind := range channelKinds {
		if least, most := channelRange(s.get, kind); least == most && least > 0 {
			c.Channels = least
		}
	}
	return c
}

// onlyChoice returns the single name that a value of NCCL_ALGO or NCCL_PROTO
// leaves for a collective, or nothing: "Ring", or since NCCL 2.24
// "allreduce:tree;broadcast:ring". A list or "^Tree" leaves a choice.
func onlyChoice(value, coll string) string {
	chosen := ""
	for part := range strings.SplitSeq(value, ";") {
		name, list, perColl := strings.Cut(part, ":")
		if !perColl {
			chosen = part
		} else if fold(strings.TrimSpace(name)) == coll {
			chosen = list
			break
		}
	}
	if strings.ContainsAny(chosen, ",^") {
		return ""
	}
	return strings.TrimSpace(chosen)
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

// directAccess is RCCL's variable for it.
const directAccess = "RCCL_DDA_ENABLE"

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

// IsSetting reports whether a name is that of a variable that times or NCCL's choice may depend on, or of an option of
// nccl-tests, as -R.
func IsSetting(name string) bool {
	return optionNamed(name) != nil || name != "" && named.FindString(name) == name
}

// unsure ends a setting in the column of variables that is only mentioned.
const unsure = "?"

// isVariable reports whether a word is of the column of variables.
func isVariable(word string) bool { return strings.HasSuffix(word, unsure) || named.MatchString(word) }

// channelKinds are what NCCL's variables count channels by: NCCL_MIN_NCHANNELS and so on.
var channelKinds = []string{"NCHANNELS", "CTAS"}

// channelRange returns what variables say of one kind: a least number, a most, or both; 0: nothing.
func channelRange(getenv func(string) string, kind string) (least, most int) {
	return atoi(getenv("NCCL_MIN_" + kind)), atoi(getenv("NCCL_MAX_" + kind))
}

// saysChannels reports whether variables say how many channels there are at least or at most, and whether they force
// some.
func (s settings) saysChannels() (says, forces bool) {
	for _, kind := range channelKinds {
		least, most := channelRange(s.get, kind)
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
