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

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/openregular"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/termsafe"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// StandardName stands for the standard input wherever a file is named.
const StandardName = "-"

// inputs are what this run read from elsewhere than a plain file.
var inputs struct {
	standard io.Reader
	text     []byte // of standard, once it was read as a whole; nil: it was not
	taken    bool   // standard is being read, or was
}

// ResetInputs begins a run.
func ResetInputs(stdin io.Reader) { inputs.standard, inputs.text, inputs.taken = stdin, nil, false }

// sniffBytes are enough to tell what a file is, also behind a long comment.
const sniffBytes = 64 << 10

// input is a file that is being read, unpacked.
type input struct {
	io.Reader
	closer io.Closer
	kind   sniffed
	packed bool
}

func (in *input) Close() error { return in.closer.Close() }

// OpenInput opens a file, "-" being the standard input, unpacks it where it is
// compressed by gzip, and refuses one that is certainly of another kind than those
// wanted.
func OpenInput(name string, want ...Kind) (*input, error) {
	in, err := openAny(name)
	if err != nil {
		return nil, err
	}
	if err := in.kind.Accept(name, want); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

func openAny(name string) (*input, error) {
	in := &input{closer: io.NopCloser(nil)}
	var from io.Reader
	switch {
	case name == StandardName && inputs.text != nil:
		from = bytes.NewReader(inputs.text)
	case name == StandardName && inputs.taken:
		return nil, errors.New("the standard input, -, can be read once only")
	case name == StandardName:
		inputs.taken, from = true, inputs.standard
	default:
		file, err := openFile(name)
		if err != nil {
			return nil, err
		}
		in.closer, from = file, file
	}
	buffered := bufio.NewReaderSize(from, sniffBytes)
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

// unpacking reads what gzip has compressed, and says so where the end is missing or left bytes
// are not enough: a few MB may unpack to gigabytes.
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

// openFile says of a name that is no file what it is.
func openFile(name string) (*os.File, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(name, "*?["):
		return nil, fmt.Errorf("%s: no file has such a name (the shell passes a pattern on as it is when nothing matches it)",
			Called(name))
	case err != nil:
		if to, not := os.Readlink(name); not == nil {
			return nil, fmt.Errorf("%s is a link to %s, which cannot be read: %w", Called(name), Called(to), errors.Unwrap(err))
		}
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory (needed: a file; tunefit import %s -o sweep.csv reads all logs in it)",
			Called(name), Called(name))
	}
	return os.Open(name)
}

// mostInput bounds a file that is read as a whole, which may unpack to anything.
const mostInput = 512 << 20

// Called is what messages and tables call an input, within one line.
func Called(name string) string {
	if name == StandardName {
		return "stdin"
	}
	return termsafe.Line(name)
}

// ReadInput is openInput for a file that is read as a whole. It may be read again.
func ReadInput(name string, want ...Kind) ([]byte, error) {
	if err := keepStandard(name); err != nil {
		return nil, err
	}
	in, err := OpenInput(name, want...)
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

// keepStandard reads the standard input as a whole, if it is named, so that it can be
// read again.
func keepStandard(name string) (err error) {
	if name != StandardName || inputs.taken {
		return nil
	}
	inputs.taken = true
	if inputs.text, err = io.ReadAll(io.LimitReader(inputs.standard, mostInput+1)); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	inputs.text = append([]byte{}, inputs.text...) // not nil
	return nil
}

// ReadDecider is ReadInput for a policy or a model. It refuses what the plugin refuses: what is no regular file, which
// could hang, and what is too large.
func ReadDecider(name string, want ...Kind) ([]byte, error) {
	if info, err := os.Stat(name); name != StandardName && err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, fmt.Errorf("%s: not a regular file (the plugin reads nothing else)", name)
	}
	text, err := ReadInput(name, want...)
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
	return openregular.Read(name, mostInput)
}

// FileKind says what a file is. What can be read only once is not looked at.
func FileKind(name string) (Kind, error) {
	if info, err := os.Stat(name); name != StandardName && err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return KindUnknown, nil
	}
	if err := keepStandard(name); err != nil {
		return KindUnknown, err
	}
	in, err := openAny(name)
	if err != nil {
		return KindUnknown, err
	}
	return in.kind.Kind, in.Close()
}

// IsPacked reports whether OpenInput unpacks a file.
func IsPacked(name string) (bool, error) {
	in, err := openAny(name)
	if err != nil {
		return false, err
	}
	return in.packed, in.Close()
}
