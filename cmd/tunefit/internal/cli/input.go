// Package cli is what the commands of tunefit share: inputs (files, gzip, standard input) recognised by their first
// bytes, outputs written whole or not at all, exit codes, progress on a terminal, and errors in the command line.
package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// StandardName stands for the standard input wherever a file is named.
const StandardName = "-"

// Inputs opens the files that a run of tunefit reads. It keeps what it read from the standard input, which can be
// read only once. The zero value has no standard input.
type Inputs struct {
	standard io.Reader
	text     []byte // of standard, once it was read as a whole; else nil
	taken    bool   // standard was opened
}

// NewInputs begins a run.
func NewInputs(stdin io.Reader) *Inputs { return &Inputs{standard: stdin} }

// sniffBytes are enough to recognise a file that begins with a long comment.
const sniffBytes = 64 << 10

// input is a file that is being read, unpacked.
type input struct {
	*bufio.Reader
	closer io.Closer
	kind   Sniffed
}

func (in *input) Close() error { return in.closer.Close() }

// Position is how many bytes of the file have been read, packed as it is; 0 of the standard input.
func (in *input) Position() int64 {
	at := int64(0)
	if file, ok := in.closer.(*os.File); ok {
		at, _ = file.Seek(0, io.SeekCurrent)
	}
	return at
}

// Open opens a file, or the standard input for "-". It unpacks gzip, and refuses a file that is clearly of another kind
// than those wanted.
func (from *Inputs) Open(name string, want ...Kind) (*input, error) {
	in, err := from.openAny(name)
	if err != nil {
		return nil, err
	}
	if err := in.kind.Accept(name, want...); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

func (from *Inputs) openAny(name string) (*input, error) {
	in := &input{closer: io.NopCloser(nil)}
	var source io.Reader
	switch {
	case name == StandardName && from.text != nil:
		source = bytes.NewReader(from.text)
	case name == StandardName && (from.taken || from.standard == nil):
		return nil, errors.New("the standard input, -, can be read once only")
	case name == StandardName:
		from.taken, source = true, from.standard
	default:
		file, err := openFile(name)
		if err != nil {
			return nil, err
		}
		in.closer, source = file, file
	}
	buffered := bufio.NewReaderSize(source, sniffBytes)
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), in.Close())
		}
		buffered = bufio.NewReaderSize(&unpacking{unpacked, mostInput}, sniffBytes)
	}
	head, err := buffered.Peek(sniffBytes)
	if err != nil && err != io.EOF {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), in.Close())
	}
	in.Reader, in.kind = buffered, Sniff(head)
	return in, nil
}

// unpacking reads gzip. It has errors of its own for a file that is cut off, and for one that unpacks to more than left
// bytes, since a few MB may unpack to gigabytes.
type unpacking struct {
	io.Reader
	left int64
}

func (u *unpacking) Read(into []byte) (int, error) {
	n, err := u.Reader.Read(into)
	if u.left -= int64(n); u.left < 0 {
		return 0, fmt.Errorf("it unpacks to more than %d MiB (needed: less, or the file unpacked)", mostInput>>20)
	}
	if err == io.ErrUnexpectedEOF {
		err = errors.New("the compressed file is cut off: its end is missing")
	}
	return n, err
}

// openFile opens a file. Its errors say what else the name is.
func openFile(name string) (*os.File, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(name, "*?["):
		return nil,
			fmt.Errorf("%s: no file has such a name (the shell passes a pattern on as it is when nothing matches it)",
				Called(name))
	case err != nil:
		if to, not := os.Readlink(name); not == nil {
			return nil, fmt.Errorf("%s is a link to %s, which cannot be read: %w", Called(name), Called(to),
				errors.Unwrap(err))
		}
		return nil, err
	case info.IsDir():
		return nil,
			fmt.Errorf("%s is a directory (needed: a file; tunefit import %s -o sweep.csv reads all logs in it)",
				Called(name), Called(name))
	}
	return os.Open(name)
}

// mostInput is the most bytes of a file that is read as a whole.
const mostInput = 512 << 20

// Called is an input's name for messages and tables, on one line.
func Called(name string) string {
	if name == StandardName {
		return "stdin"
	}
	return wording.Line(name)
}

// Text reads a whole file. After it, the standard input can be read again, too.
func (from *Inputs) Text(name string, want ...Kind) ([]byte, error) {
	if err := from.keepStandard(name); err != nil {
		return nil, err
	}
	in, err := from.Open(name, want...)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, mostInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(text) > mostInput:
		return nil, fmt.Errorf("%s: larger than %d MiB", name, mostInput>>20)
	}
	return text, nil
}

// keepStandard keeps the text of the standard input, if it is named, so that it can be read again.
func (from *Inputs) keepStandard(name string) (err error) {
	if name != StandardName || from.taken || from.standard == nil {
		return nil
	}
	from.taken = true
	if from.text, err = io.ReadAll(io.LimitReader(from.standard, mostInput+1)); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	from.text = append([]byte{}, from.text...) // not nil
	return nil
}

// Decider reads a whole policy or model. Like the plugin, it refuses files that are too large and files that are not
// regular, which could hang.
func (from *Inputs) Decider(name string, want ...Kind) ([]byte, error) {
	if name != StandardName && IsStream(name) {
		return nil, fmt.Errorf("%s: not a regular file (the plugin reads nothing else)", name)
	}
	text, err := from.Text(name, want...)
	if len(text) > model.MaxFileBytes {
		return nil, fmt.Errorf("%s: larger than the %d MiB that the plugin reads", name, model.MaxFileBytes>>20)
	}
	return text, err
}

// ReadRegular reads a file as the plugin does, which unpacks nothing.
func ReadRegular(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file (the plugin reads nothing else)", name)
	}
	return safefile.Read(name, mostInput)
}

// Kind recognises a file. Streams are "", because they can be read only once.
func (from *Inputs) Kind(name string) (Kind, error) {
	if name != StandardName && IsStream(name) {
		return "", nil
	}
	if err := from.keepStandard(name); err != nil {
		return "", err
	}
	in, err := from.openAny(name)
	if err != nil {
		return "", err
	}
	return in.kind.Kind, in.Close()
}

// Kind is what a command reads, in words. "" is any other file.
type Kind string

// The kinds of files.
const (
	KindPolicy       Kind = "a policy"
	KindModel        Kind = "a cost model"
	KindMeasurements Kind = "a sweep, a log of measurements or the JSON output of nccl-tests"
	KindRecording    Kind = "the output of the library's recorder or of NCCL's inspector"
	KindProfile      Kind = "a job profile"
	KindTopology     Kind = "a topology"
	KindTests        Kind = "tests of a policy"
)

// Sniffed is what the first bytes of a file tell. The zero value is a file that was not recognised, or an empty one;
// reading it reports what is wrong.
type Sniffed struct {
	Kind      Kind
	is        string // the file, in words
	use       string // what it is for; FILE stands for its name
	separator rune   // between the fields of a policy or a sweep; 0: commas
}

const makesSweep = "tunefit import FILE -o sweep.csv makes a sweep of it, and tunefit fit reads either"

var (
	sniffedPolicy = Sniffed{Kind: KindPolicy, is: "a policy",
		use: "tunefit show FILE prints what it decides, tunefit check FILE finds mistakes in it"}
	sniffedSweep = Sniffed{Kind: KindMeasurements, is: "a sweep: measurements",
		use: "tunefit fit FILE --csv policy.csv learns a policy from it"}
	sniffedLog     = Sniffed{Kind: KindMeasurements, is: "a log of measurements", use: makesSweep}
	sniffedResults = Sniffed{Kind: KindMeasurements, is: "the JSON output of nccl-tests", use: makesSweep}
	sniffedPacked  = Sniffed{is: "packed in a way that is not read here",
		use: "gunzip is done for you, anything else unpack first"}
	sniffedJSON = Sniffed{is: "JSON, but nothing that tunefit writes or reads"}
)

// Packed reports whether a file is compressed.
func (s Sniffed) Packed() bool { return s == sniffedPacked }

// Refuse is the error for a recognised file that should have been something else; nil for any other.
func (s Sniffed) Refuse(name, needed string) error {
	if s.is == "" {
		return nil
	}
	called, name := calledInput(name)
	use := ""
	if s.use != "" {
		use = "; " + placeholder.ReplaceAllLiteralString(s.use, name)
	}
	return fmt.Errorf("%s is %s (needed: %s)%s", called, s.is, needed, use)
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
func (s Sniffed) Accept(name string, want ...Kind) error {
	switch {
	case s == sniffedJSON && slices.Contains(want, KindModel): // a damaged model; reading it reports where
		return nil
	case s.is != "" && !slices.Contains(want, s.Kind):
		var needed []string
		for _, k := range want {
			needed = append(needed, string(k))
		}
		return s.Refuse(name, strings.Join(needed, " or "))
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
func Sniff(head []byte) Sniffed {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	text := bytes.TrimSpace(head)
	has := func(word string) bool { return bytes.Contains(head, []byte(word)) }
	switch {
	// UTF-16; reading it reports that
	case bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")):
		return Sniffed{}
	case slices.ContainsFunc(packed, func(magic []byte) bool { return bytes.HasPrefix(head, magic) }),
		len(head) > 262 && string(head[257:262]) == "ustar":
		return sniffedPacked
	case bytes.IndexByte(head[:min(len(head), 256)], 0) >= 0: // a log may have zero bytes later
		return Sniffed{is: "not a text"}
	case bench.IsReport(text):
		return sniffedResults
	case bench.IsWrapped(text):
		return sniffedLog
	case bytes.HasPrefix(text, []byte("{")), bytes.HasPrefix(text, []byte("[{")), string(text) == "[]":
		return sniffJSON(text, has)
	// Not the <details> of an issue.
	case markup.Match(text) && (has("<system") || sniffLines(head).Kind != KindMeasurements):
		lower := bytes.ToLower(text)
		switch {
		case bytes.HasPrefix(lower, []byte("<!doctype html")), bytes.HasPrefix(lower, []byte("<html")):
			return Sniffed{is: "a page for a browser", use: "open it in one"}
		case has("<system"):
			return Sniffed{Kind: KindTopology, is: "a topology",
				use: "tunefit topo FILE shows it, and --topo FILE makes other commands use it"}
		}
		return Sniffed{is: "XML, but no topology: it has no <system>",
			use: "NCCL_TOPO_DUMP_FILE=system.xml makes NCCL write one, tunefit topo --dump prints this machine's"}
	case bytes.HasPrefix(text, []byte(profile.Head)):
		return Sniffed{Kind: KindProfile, is: "a job profile", use: "tunefit profile FILE prints it"}
	}
	s := sniffLines(head)
	if s.is == "" && testsLine.Match(head) {
		return Sniffed{Kind: KindTests, is: "tests of a policy", use: "tunefit check POLICY --tests FILE runs them"}
	}
	return s
}

func sniffJSON(text []byte, has func(word string) bool) Sniffed {
	switch {
	case bytes.HasPrefix(text, []byte(record.Head)):
		return Sniffed{Kind: KindRecording, is: "a file of the library's recorder",
			use: "tunefit import DIRECTORY -o job.csv makes a job profile of those of all ranks"}
	case has(model.Format):
		return Sniffed{Kind: KindModel, is: "a cost model", use: "tunefit show --model FILE prints what it decides, " +
			"NCCL_TUNER_MODEL_FILE gives it to a job"}
	case has(`"inspector_output_format_version"`):
		return Sniffed{Kind: KindRecording, is: "the output of NCCL's inspector",
			use: "tunefit import FILE -o job.csv makes a job profile of it, tunefit profile FILE prints it"}
	case has(trial.EvidenceFormat):
		return Sniffed{is: "what a job has learned", use: "tunefit learn DIRECTORY shows all such files of a directory"}
	case has(`"step_calls"`) && has(`"block_seconds"`):
		return Sniffed{is: "what a job found out about its policy",
			use: "tunefit compare DIRECTORY shows all such files of a directory"}
	case has(`"lat"`) && has(`"bw"`):
		return Sniffed{is: "NCCL's estimates, as tunefit topo tuning --json prints them"}
	case has(`"rules"`) && has(`"filter"`): // NCCLX's
		return sniffedPolicy
	case has(`"nccl_version"`), has(`"out_of_place"`), has(`"results"`), has(`"args"`) && has(`"version"`):
		return sniffedResults
	}
	return sniffedJSON
}

// sniffLines looks for the first line that identifies the file.
func sniffLines(head []byte) Sniffed {
	first := true
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
			continue
		case logLine.Match(line):
			return sniffedLog
		case line[0] == '#':
			continue
		}
		for _, separator := range []rune{',', ';', '\t'} {
			if !first {
				break
			}
			if s := sniffTable(string(line), separator); s.is != "" {
				if separator != ',' {
					s.separator = separator
				}
				return s
			}
		}
		first = false
	}
	return Sniffed{}
}

// spelling removes what columns may be written with.
var spelling = strings.NewReplacer("_", "", " ", "", `"`, "")

// sniffTable looks at the first line of a CSV file.
func sniffTable(line string, separator rune) Sniffed {
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
	case count(sweepColumns) >= 2:
		return sniffedSweep
	case count(policyColumns) >= 2, err == nil && len(fields) >= 7:
		return sniffedPolicy
	}
	return Sniffed{}
}
