package fit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// WriteModel writes a model's file: indented, but each curve on one line.
func WriteModel(w io.Writer, file *model.File) error {
	whole := *file
	if whole.Groups == nil {
		whole.Groups = []model.Group{}
	}
	text, err := json.Marshal(&whole)
	if err != nil {
		return err
	}
	if text = append(indent(text, ""), '\n'); len(text) > model.MaxFileBytes {
		return fmt.Errorf("the model is larger than the %s that the library reads: nothing was written "+
			"(fit fewer collectives or communicators at a time)", nccl.FormatBytes(model.MaxFileBytes))
	}
	_, err = w.Write(text)
	return err
}

// indent lays out JSON as json.Indent does, but leaves what holds no objects on one line: lists of numbers, and curves.
// start begins each line but the first.
func indent(text []byte, start string) []byte {
	type block struct {
		line    int // that it begins with
		objects bool
	}
	var long bytes.Buffer
	if err := json.Indent(&long, text, start, " "); err != nil {
		panic(err) // Marshal wrote it
	}
	var lines []string
	open := []block{{}}
	for line := range strings.Lines(long.String()) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
		here, words := &open[len(open)-1], strings.Trim(line, start+" \n,")
		switch {
		case strings.HasSuffix(words, "{"), strings.HasSuffix(words, "["):
			here.objects = here.objects || strings.HasSuffix(words, "{")
			open = append(open, block{line: len(lines) - 1})
		case strings.HasSuffix(words, "{}"):
			here.objects = true
		case words == "}" || words == "]":
			if !here.objects {
				lines = append(lines[:here.line], compact(lines[here.line:], start))
			}
			open[len(open)-2].objects = open[len(open)-2].objects || here.objects
			open = open[:len(open)-1]
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// compact joins the lines of a block.
func compact(lines []string, start string) string {
	text := lines[0]
	for _, line := range lines[1:] {
		text += strings.Replace(strings.TrimLeft(line, start+" "), `": `, `":`, 1)
	}
	return text
}
