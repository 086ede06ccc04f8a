// Package jsonerror tells a person where in a file encoding/json found an error.
package jsonerror

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
		needed := mistyped.Type.String()
		if mistyped.Type.Kind() == reflect.Struct {
			needed = "JSON object" // not the type's name in this project
		}
		err = fmt.Errorf("%s where a %s is needed", mistyped.Value, needed)
		if field := embedded.ReplaceAllString(mistyped.Field, ""); field != "" {
			err = fmt.Errorf("%s: %w", field, err)
		}
	}
	if at < 0 || at > int64(len(text)) {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "json: "))
	}
	before := text[:max(0, at-1)] // the offset includes the wrong byte
	line, column := bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("%s:%d:%d: %w", name, line, column, err)
}
