package fit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// writtenAtOnce bounds the groups whose texts are in memory.
const writtenAtOnce = 16

// WriteModel writes a model's file: indented, but lists of numbers on one line.
// It writes group by group: a whole file may be many megabytes.
func WriteModel(w io.Writer, file *policy.ModelFile) error {
	out := bufio.NewWriterSize(w, 256<<10)
	bare := *file
	bare.Groups = []policy.ModelGroup{}
	head, err := json.MarshalIndent(&bare, "", " ")
	if err != nil {
		return err
	}
	const end = "[]\n}" // groups come last
	out.Write(joinNumbers(bytes.TrimSuffix(head, []byte(end))))
	if len(file.Groups) == 0 {
		out.WriteString(end + "\n")
		return out.Flush()
	}
	separator := "[\n  "
	for groups := range slices.Chunk(file.Groups, writtenAtOnce) {
		texts, errs := make([][]byte, len(groups)), make([]error, len(groups))
		each(len(groups), nil, func(i int) {
			text, err := json.MarshalIndent(&groups[i], "  ", " ")
			texts[i], errs[i] = joinNumbers(text), err
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for _, text := range texts {
			out.WriteString(separator)
			out.Write(text)
			separator = ",\n  "
		}
	}
	out.WriteString("\n ]\n}\n")
	return out.Flush()
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
