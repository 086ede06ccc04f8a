// Package jsonerror tells a person where in a file encoding/json found an error.
package jsonerror

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// embedded is the name of a Go type in the path to a field. Files do not have it.
var embedded = regexp.MustCompile(`\b[A-Z]\w*\.`)

// At adds the file to an error of encoding/json, and line and column if the error has an offset.
func At(name string, text []byte, err error) error {
	at := int64(-1)
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &mistyped):
		at = mistyped.Offset
		field := embedded.ReplaceAllString(mistyped.Field, "")
		err = fmt.Errorf("%s: %s where a %s is needed", field, mistyped.Value, mistyped.Type)
	}
	if at < 0 || at > int64(len(text)) {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "json: "))
	}
	before := text[:max(0, at-1)] // the offset includes the wrong byte
	line, column := bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("%s:%d:%d: %w", name, line, column, err)
}
