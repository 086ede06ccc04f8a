package fit

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// WriteModel writes a model's file: indented, but each curve on one line.
func WriteModel(w io.Writer, file *model.File) error {
	text, err := MarshalModel(file)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// MarshalModel is WriteModel into memory.
func MarshalModel(file *model.File) ([]byte, error) {
	whole := *file
	if whole.Groups == nil {
		whole.Groups = []model.Group{}
	}
	text, err := json.Marshal(&whole)
	if err != nil {
		return nil, err
	}
	if text = append(indent(text, ""), '\n'); len(text) > model.MaxFileBytes {
		return nil, fmt.Errorf("the model is larger than the %s that the library reads: nothing was written "+
			"(fit fewer collectives or communicators at a time)", nccl.FormatBytes(model.MaxFileBytes))
	}
	return text, nil
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
