package fit

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// WriteModel writes a model's file: indented, but lists of numbers on one line.
func WriteModel(w io.Writer, file *policy.ModelFile) error {
	text, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(joinNumbers(text), '\n'))
	return err
}

// joinNumbers takes the line breaks out of lists that hold neither objects nor
// texts. It relies on what MarshalIndent writes: white space is either a line
// break with indentation or the space after a colon.
func joinNumbers(text []byte) []byte {
	out := make([]byte, 0, len(text))
	inText := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inText && c == '\\':
			out = append(out, c)
			i++
			c = text[i]
		case c == '"':
			inText = !inText
		case c == '[' && !inText:
			if end := numbersEnd(text[i:]); end > 0 {
				for _, b := range text[i : i+end] {
					if b != ' ' && b != '\n' {
						out = append(out, b)
					}
				}
				i += end - 1
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// numbersEnd returns the length of a list that holds numbers, or lists of
// numbers, only; 0 for any other.
func numbersEnd(list []byte) int {
	depth := 0
	for i, c := range list {
		switch c {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '{', '"':
			return 0
		}
	}
	return 0
}

// MarshalModel is WriteModel into memory.
func MarshalModel(file *policy.ModelFile) ([]byte, error) {
	var b bytes.Buffer
	err := WriteModel(&b, file)
	return b.Bytes(), err
}
