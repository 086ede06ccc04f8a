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
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
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
	packed bool
}

func (in *input) Close() error { return in.closer.Close() }

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
		in.packed, buffered = true, bufio.NewReaderSize(&unpacking{unpacked, mostInput}, sniffBytes)
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

// IsPacked reports whether Open unpacks a file.
func (from *Inputs) IsPacked(name string) (bool, error) {
	in, err := from.openAny(name)
	if err != nil {
		return false, err
	}
	return in.packed, in.Close()
}
