package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// MayWrite refuses an output that exists, unless force, and one that is also an input, which would be lost. A command
// calls it before it does any work. An empty name is no file.
func MayWrite(name string, force bool, inputs ...string) error {
	if name == StandardName {
		return Usagef("- as an output is no file (needed: a name; what goes to standard output does so without an " +
			"option)")
	}
	for _, in := range inputs {
		if name != "" && in != "" && in != StandardName && SameFile(name, in) {
			return fmt.Errorf("%s is read, and would be overwritten as %s (needed: another name for the output; "+
				"--force does not change that)", in, name)
		}
	}
	if name == "" || force {
		return nil
	}
	switch _, err := os.Lstat(name); {
	case err == nil && IsStream(name): // nothing is lost
		return nil
	case err == nil:
		return fmt.Errorf("%s is there already (--force overwrites it)", name)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// IsStream reports whether a name is a pipe or a device, which cannot be read twice.
func IsStream(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// SameFile reports whether two paths lead to one file.
func SameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	ia, err1 := os.Stat(a)
	ib, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(ia, ib)
}

// WriteWhole writes a file whole or not at all, see safefile.WriteDurable. Without force it overwrites nothing, not
// even a file that appeared meanwhile.
func WriteWhole(name string, force bool, write func(io.Writer) error) error {
	return safefile.WriteDurable(name, func(w io.Writer) error {
		return errors.Join(write(w), MayWrite(name, force))
	})
}

// WriteText is WriteWhole for a text that may replace another.
func WriteText[T ~string | ~[]byte](name string, text T) error {
	return WriteWhole(name, true, func(w io.Writer) error {
		_, err := w.Write([]byte(text))
		return err
	})
}

// WriteOrPrint is WriteWhole. Without a name it writes to the standard output.
func WriteOrPrint(stdout io.Writer, name string, force bool, write func(io.Writer) error) error {
	if name == "" {
		return write(stdout)
	}
	return WriteWhole(name, force, write)
}

// Notes prints what a person should know of an answer.
func Notes(w io.Writer, notes ...string) {
	for _, note := range notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}

// Output is where commands print. What others wrote into files cannot steer the terminal of a reader, who may be root:
// it is escaped, see wording.Text. Output keeps the first error and prints nothing after it, so commands need not
// check each line. A closed pipe, as by head, is no error: a command still writes its files and ends with its own exit
// code.
type Output struct {
	io.Writer
	err  error
	line []byte // the beginning of a line, whose rest comes next: characters are whole within lines
}

func (o *Output) Write(text []byte) (int, error) {
	end := bytes.LastIndexByte(text, '\n') + 1
	o.line = append(o.line, text[:end]...)
	if end > 0 {
		o.flush()
	}
	o.line = append(o.line, text[end:]...)
	if o.err != nil {
		return 0, o.err
	}
	return len(text), nil
}

// flush prints what was written of a line.
func (o *Output) flush() {
	if len(o.line) > 0 {
		o.print(wording.Text(string(o.line)))
		o.line = o.line[:0]
	}
}

// print prints text as it is.
func (o *Output) print(text string) error {
	if o.err == nil {
		o.err = Steer(o.Writer, text)
	}
	if errors.Is(o.err, syscall.EPIPE) {
		o.Writer, o.err = io.Discard, nil
	}
	return o.err
}

// Complete returns a command's error. If printing failed and the command has no other error, it says so.
func (o *Output) Complete(err error) error {
	o.flush()
	if o.err != nil && (err == nil || errors.Is(err, o.err) || errors.Is(err, ErrFailed) || errors.Is(err, ErrUnseen)) {
		return fmt.Errorf("the output is not complete: %w", o.err)
	}
	return err
}

// Printable escapes what Output does, and takes whole characters.
type Printable struct{ io.Writer }

func (p Printable) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, wording.Text(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Steer prints text as it is, to steer a terminal.
func Steer(w io.Writer, text string) error {
	switch w := w.(type) {
	case *Output:
		w.flush()
		return w.print(text)
	case Printable:
		return Steer(w.Writer, text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// below is where a writer that escapes prints to.
func below(w io.Writer) io.Writer {
	switch printer := w.(type) {
	case *Output:
		return below(printer.Writer)
	case Printable:
		return below(printer.Writer)
	}
	return w
}

// IsTerminal reports whether a person looks at w.
func IsTerminal(w io.Writer) bool {
	file, ok := below(w).(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// Few joins the first strings of a list, and the number of the others.
func Few(list []string, most int, separator string) string {
	if len(list) > most {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, separator)
}

// Groups splits a list by a key, in the list's order.
func Groups[T any, K comparable](all []T, key func(T) K) (lists [][]T) {
	index := map[K]int{}
	for _, x := range all {
		at, known := index[key(x)]
		if !known {
			at = len(lists)
			index[key(x)] = at
			lists = append(lists, nil)
		}
		lists[at] = append(lists[at], x)
	}
	return lists
}

// Percent writes a share; - for one that is not known.
func Percent(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// Print prints v as JSON, or what text writes for a person.
func Print(w io.Writer, asJSON bool, v any, text func(io.Writer)) error {
	if asJSON {
		return WriteJSON(w, v)
	}
	text(w)
	return nil
}

// WriteJSON prints v, indented.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// ShellWords quotes words for a shell.
func ShellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// ShellWord quotes a word for a shell where that is needed.
func ShellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_-./=:,@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Assignments writes variables as NAME=value, sorted: the same ones read the same.
func Assignments(variables map[string]string) (all []string) {
	for name, value := range variables {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}

// ShellAssignments writes variables as Assignments does, with values quoted for a shell, before a command.
func ShellAssignments(variables map[string]string) string {
	quoted := map[string]string{}
	for name, value := range variables {
		quoted[name] = ShellWord(value)
	}
	return strings.Join(Assignments(quoted), " ")
}
