package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// Kind is what a file holds, in words. Its first bytes tell.
type Kind struct {
	is  string
	use string // what the file is for; FILE stands for its name
}

const makesSweep = "tunefit import FILE -o sweep.csv makes a sweep of it, and tunefit fit reads either"

// The kinds that a command reads or tells apart. Sniff also has words for a few that no command reads.
var (
	KindUnknown Kind // or empty; reading it reports what is wrong
	KindPolicy  = Kind{"a policy",
		"tunefit show FILE prints what it decides, tunefit check FILE finds mistakes in it"}
	KindSweep   = Kind{"a sweep: measurements", "tunefit fit FILE --csv policy.csv learns a policy from it"}
	KindLog     = Kind{"a log of measurements", makesSweep}
	KindResults = Kind{"the JSON output of nccl-tests", makesSweep}
	KindModel   = Kind{"a cost model",
		"tunefit show --model FILE prints what it decides, NCCL_TUNER_MODEL_FILE gives it to a job"}
	KindTuning = Kind{"a table of NCCL's latencies and bandwidths",
		"show, explain, diff and check take it as --tuning FILE"}
	KindTopology  = Kind{"a topology", "tunefit topo FILE shows it, and --topo FILE makes other commands use it"}
	KindTests     = Kind{"tests of a policy", "tunefit check POLICY --tests FILE runs them"}
	KindInspector = Kind{"the output of NCCL's inspector",
		"tunefit import FILE -o job.csv makes a job profile of it, tunefit profile FILE prints it"}
	KindRecord = Kind{"a file of the library's recorder",
		"tunefit import DIRECTORY -o job.csv makes a job profile of those of all ranks"}
	KindLearned = Kind{"what a job has learned", "tunefit learn DIRECTORY shows all such files of a directory"}
	KindProfile = Kind{"a job profile", "tunefit profile FILE prints it"}
	KindPacked  = Kind{"packed in a way that is not read here", "gunzip is done for you, anything else unpack first"}
	kindJSON    = Kind{"JSON, but nothing that tunefit writes or reads", ""}
)

// sniffed is what the first bytes of a file tell.
type sniffed struct {
	Kind
	separator rune // between the fields of a policy or a sweep; 0: commas
}

// wrong is the error for a file that should have been something else.
func (s sniffed) wrong(name string, want []Kind) error {
	var needed []string
	for _, k := range want {
		is, _, _ := strings.Cut(k.is, ":")
		needed = append(needed, is)
	}
	last := len(needed) - 1
	if last > 0 {
		needed[last-1] += " or " + needed[last]
		needed = needed[:last]
	}
	called, name := calledInput(name)
	use := ""
	if s.use != "" {
		use = "; " + placeholder.ReplaceAllLiteralString(s.use, name)
	}
	return fmt.Errorf("%s is %s (needed: %s)%s", called, s.is, strings.Join(needed, ", "), use)
}

// placeholder stands for the name of the file.
var placeholder = regexp.MustCompile(`\bFILE\b`)

// calledInput is an input's name in a sentence, and on a command line.
func calledInput(name string) (called, file string) {
	if name == StandardName {
		return "the standard input", "FILE"
	}
	return Called(name), Called(name)
}

// Accept returns an error for a file that is clearly none of those wanted.
func (s sniffed) Accept(name string, want []Kind) error {
	switch {
	case s.Kind == KindUnknown:
		return nil
	case s.Kind == kindJSON && slices.Contains(want, KindModel): // a damaged model; reading it reports where
		return nil
	case !slices.Contains(want, s.Kind):
		return s.wrong(name, want)
	case s.separator != 0:
		called, _ := calledInput(name)
		is, _, _ := strings.Cut(s.is, ":")
		return fmt.Errorf("%s is %s whose fields are separated by %s (needed: commas)", called, is,
			map[rune]string{';': "semicolons", '\t': "tabs"}[s.separator])
	}
	return nil
}

// Columns that only one kind of CSV file has, in lower case and without "_" and blanks.
var (
	sweepColumns = []string{"sizebytes", "size", "size(b)", "timeus", "time(us)", "time(us)out-of-place",
		"latencyus", "algbw", "algbwgbps",
		"busbw", "busbwgbps", "inplace", "selection", "costmetric"}
	policyColumns = []string{"minbytes", "maxbytes", "minbytesperrank", "maxbytesperrank", "rankspernode",
		"chunkbytes", "when", "comment", "algorithm", "algo"}
)

var (
	// The header and the rows of nccl-tests, and NCCL's messages.
	logLine = regexp.MustCompile(
		`NCCL (?:INFO|WARN|version) |` +
			`(?:^|[#>:] ?) *(?:nThread [0-9]|nccl-tests version|` +
			`NCCL Tests compiled|Collective test starting|Using devices|Rank +[0-9]+ )|` +
			`^(?:[\[\]<>@,:a-z0-9 -]*\s)?[0-9]+\s+[0-9]+\s+(?:u?int(?:8|32|64)|half|` +
			`float|double|bfloat16|f8e[0-9a-z]+)\s`)
	markup    = regexp.MustCompile(`^<[A-Za-z!?]`)
	testsLine = regexp.MustCompile(`(?m)^tests:\s*$`)
	packed    = [][]byte{[]byte("\x1f\x8b"), []byte("\x28\xb5\x2f\xfd"), []byte("\xfd7zXZ\x00"), []byte("BZh"),
		[]byte("PK\x03\x04"), []byte("7z\xbc\xaf\x27\x1c")}
)

// Sniff recognises a file by its first bytes.
func Sniff(head []byte) (s sniffed) {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	text := bytes.TrimSpace(head)
	has := func(word string) bool { return bytes.Contains(head, []byte(word)) }
	switch {
	// UTF-16; reading it reports that
	case bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")):
	case slices.ContainsFunc(packed, func(magic []byte) bool { return bytes.HasPrefix(head, magic) }),
		len(head) > 262 && string(head[257:262]) == "ustar":
		s.Kind = KindPacked
	case bytes.IndexByte(head[:min(len(head), 256)], 0) >= 0: // a log may have zero bytes later
		s.Kind = Kind{"not a text", ""}
	case bench.IsReport(text):
		s.Kind = KindResults
	case bench.IsWrapped(text):
		s.Kind = KindLog
	case bytes.HasPrefix(text, []byte("{")), bytes.HasPrefix(text, []byte("[{")), bytes.HasPrefix(text, []byte("[]")):
		switch {
		case bytes.HasPrefix(text, []byte(record.Head)):
			s.Kind = KindRecord
		case has(model.Format):
			s.Kind = KindModel
		case has(`"inspector_output_format_version"`):
			s.Kind = KindInspector
		case has(trial.EvidenceFormat):
			s.Kind = KindLearned
		case has(`"step_calls"`) && has(`"block_seconds"`):
			s.Kind = Kind{"what a job found out about its policy",
				"tunefit compare DIRECTORY shows all such files of a directory"}
		case has(`"lat"`) && has(`"bw"`):
			s.Kind = KindTuning
		case has(`"rules"`) && has(`"filter"`): // NCCLX's
			s.Kind = KindPolicy
		case has(`"nccl_version"`), has(`"out_of_place"`), has(`"results"`), has(`"args"`) && has(`"version"`):
			s.Kind = KindResults
		default:
			s.Kind = kindJSON
		}
	case markup.Match(text):
		lower := bytes.ToLower(text)
		switch {
		case bytes.HasPrefix(lower, []byte("<!doctype html")), bytes.HasPrefix(lower, []byte("<html")):
			s.Kind = Kind{"a page for a browser", "open it in one"}
		case has("<system"):
			s.Kind = KindTopology
		default:
			s.Kind = Kind{"XML, but no topology: it has no <system>",
				"NCCL_TOPO_DUMP_FILE=system.xml makes NCCL write one, tunefit topo --dump prints this machine's"}
		}
	case bytes.HasPrefix(text, []byte(profile.Head)):
		s.Kind = KindProfile
	default:
		if s.lines(head); s.Kind == KindUnknown && testsLine.Match(head) {
			s.Kind = KindTests
		}
	}
	return s
}

// lines looks for the first line that identifies the file.
func (s *sniffed) lines(head []byte) {
	first := true
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
			continue
		case logLine.Match(line):
			s.Kind = KindLog
			return
		case line[0] == '#':
			continue
		}
		for _, separator := range []rune{',', ';', '\t'} {
			if first && s.table(string(line), separator) {
				if separator != ',' {
					s.separator = separator
				}
				return
			}
		}
		first = false
	}
}

// spelling removes what columns may be written with.
var spelling = strings.NewReplacer("_", "", " ", "", `"`, "")

// table looks at the first line of a CSV file.
func (s *sniffed) table(line string, separator rune) bool {
	fields := strings.Split(line, string(separator))
	count := func(names []string) (n int) {
		for _, c := range fields {
			if slices.Contains(names, spelling.Replace(strings.ToLower(c))) {
				n++
			}
		}
		return n
	}
	_, err := nccl.Colls.Parse(strings.Trim(fields[0], `" `))
	switch {
	case len(fields) < 2:
		return false
	case count(sweepColumns) >= 2:
		s.Kind = KindSweep
	case count(policyColumns) >= 2, err == nil && len(fields) >= 7:
		s.Kind = KindPolicy
	default:
		return false
	}
	return true
}
