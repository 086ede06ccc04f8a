package wording

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

// JSONErrorAt adds the file to an error of encoding/json, and line and column if the error has an offset.
func JSONErrorAt(name string, text []byte, err error) error {
	at := int64(-1)
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &mistyped):
		at = mistyped.Offset
	}
	err = JSONError(err)
	if at < 0 || at > int64(len(text)) {
		return fmt.Errorf("%s: %w", name, err)
	}
	before := text[:max(0, at-1)] // the offset includes the wrong byte
	line, column := bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("%s:%d:%d: %w", name, line, column, err)
}

// JSONError says what an error of encoding/json says, without names of Go, and without much of the file: encoding/json
// quotes a wrong number or key as a whole. Of nil it makes nil.
func JSONError(err error) error {
	if err == nil {
		return nil
	}
	var mistyped *json.UnmarshalTypeError
	if !errors.As(err, &mistyped) {
		return errors.New(cut(strings.TrimPrefix(err.Error(), "json: "), 500))
	}
	needed := mistyped.Type.String()
	if mistyped.Type.Kind() == reflect.Struct {
		needed = "JSON object" // not the type's name in this project
	}
	err = fmt.Errorf("%s where a %s is needed", cut(mistyped.Value, 60), needed)
	if field := embedded.ReplaceAllString(mistyped.Field, ""); field != "" {
		err = fmt.Errorf("%s: %w", field, err)
	}
	return err
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
