package fit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// writtenAtOnce bounds the groups whose texts are in memory.
const writtenAtOnce = 16

// WriteModel writes a model's file: indented, but each curve on one line.
// It writes group by group: a whole file may be many megabytes.
func WriteModel(w io.Writer, file *model.File) error {
	out := bufio.NewWriterSize(&limited{w, model.MaxFileBytes}, 256<<10) // keeps the first error for Flush
	bare := *file
	bare.Groups = []model.Group{}
	head, err := json.Marshal(&bare)
	if err != nil {
		return err
	}
	const end = "[]\n}" // groups come last
	_, _ = out.Write(bytes.TrimSuffix(indent(head, ""), []byte(end)))
	if len(file.Groups) == 0 {
		_, _ = out.WriteString(end + "\n")
		return out.Flush()
	}
	separator := "[\n  "
	for groups := range slices.Chunk(file.Groups, writtenAtOnce) {
		texts, errs := make([][]byte, len(groups)), make([]error, len(groups))
		each(len(groups), nil, func(i int) {
			text, err := json.Marshal(&groups[i])
			texts[i], errs[i] = indent(text, "  "), err
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for _, text := range texts {
			_, _ = out.WriteString(separator)
			_, _ = out.Write(text)
			separator = ",\n  "
		}
	}
	_, _ = out.WriteString("\n ]\n}\n")
	return out.Flush()
}

// limited refuses more than the library reads.
type limited struct {
	io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("the model is larger than the %s that the library reads: nothing was written (fit fewer collectives or communicators at a time)", nccl.FormatBytes(model.MaxFileBytes))
	}
	return l.Writer.Write(p)
}

// indent lays out compact JSON as json.Indent does, but leaves what holds no objects on one
// line: lists of numbers, and curves. start begins each line but the first.
func indent(text []byte, start string) []byte {
	out := make([]byte, 0, len(text)+len(text)/8)
	depth := 0
	line := func() {
		out = append(append(out, '\n'), start...)
		for range depth {
			out = append(out, ' ')
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			end := textEnd(text[i:])
			out = append(out, text[i:i+end]...)
			i += end - 1
		case '{', '[':
			if end := plainEnd(text[i:]); end > 0 {
				out = append(out, text[i:i+end]...)
				i += end - 1
				continue
			}
			out = append(out, c)
			depth++
			line()
		case '}', ']':
			depth--
			line()
			out = append(out, c)
		case ',':
			out = append(out, c)
			line()
		case ':':
			out = append(out, c, ' ')
		default:
			out = append(out, c)
		}
	}
	return out
}

// textEnd returns the length of a string, quotes included.
func textEnd(s []byte) int {
	i := 1
	for ; s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// plainEnd returns the length of a list or an object; 0 if it holds another object.
func plainEnd(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			i += textEnd(text[i:]) - 1
		case '[', '{':
			if depth++; c == '{' && i > 0 {
				return 0
			}
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// MarshalModel is WriteModel into memory.
func MarshalModel(file *model.File) ([]byte, error) {
	var b bytes.Buffer
	err := WriteModel(&b, file)
	return b.Bytes(), err
}
