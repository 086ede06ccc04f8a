package fit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// WriteModel writes a model's file: indented, but each curve on one line.
func WriteModel(w io.Writer, file *model.File) error {
	whole := *file
	if whole.CurveSets == nil {
		whole.CurveSets = []model.CurveSet{}
	}
	text, err := json.MarshalIndent(&whole, "", " ")
	if err != nil {
		return err
	}
	if text = append(shorten(text), '\n'); len(text) > model.MaxFileBytes {
		return fmt.Errorf("the model is larger than the %s that the library reads: nothing was written "+
			"(fit fewer collectives or communicators at a time)", nccl.FormatBytes(model.MaxFileBytes))
	}
	_, err = w.Write(text)
	return err
}

// shorten puts objects without objects in them on one line each: curves, times of the default, files.
func shorten(indented []byte) []byte {
	var out bytes.Buffer
	for {
		start := bytes.Index(indented, []byte("{\n"))
		if start < 0 {
			out.Write(indented)
			return out.Bytes()
		}
		out.Write(indented[:start])
		end := start + 1 + bytes.IndexAny(indented[start+1:], "{}")
		// Compact fails where the brace is of a name: the object stays as it is.
		if indented[end] == '}' && json.Compact(&out, indented[start:end+1]) == nil {
			indented = indented[end+1:]
			continue
		}
		out.Write(indented[start:end])
		indented = indented[end:]
	}
}
