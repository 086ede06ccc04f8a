package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// watchedFile is a file that running ranks read again when it changes.
type watchedFile struct {
	path  string
	model bool
}

// read returns the file's text and all that is wrong with it.
func (f watchedFile) read() (text []byte, err error) {
	if !f.model {
		if _, err := readPolicy(f.path); err != nil {
			return nil, err
		}
		return os.ReadFile(f.path)
	}
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file (the plugin reads nothing else)", f.path)
	}
	if text, err = os.ReadFile(f.path); err != nil {
		return nil, err
	}
	if _, err := policy.ReadModel(f.path, text); err != nil {
		return nil, fmt.Errorf("%s is not a model:\n%w", f.path, err)
	}
	return text, nil
}

// note says what keeps a communicator from the file as it is now, if anything can be
// seen from here.
func (f watchedFile) note(c *communicator) string {
	if !filepath.IsAbs(f.path) || !c.here() {
		return ""
	}
	_, err := f.read()
	if err == nil {
		return ""
	}
	first, _, more := bytes.Cut([]byte(err.Error()), []byte("\n"))
	said := string(first)
	var problems policy.Problems
	if errors.As(err, &problems) {
		said = fmt.Sprintf("%v", problems[0])
		if more = len(problems) > 1; more {
			said += fmt.Sprintf(", and %s more", plural(len(problems)-1, "problem"))
		}
	}
	return fmt.Sprintf("%s cannot be used as it is now: %s.\n  The ranks keep the version they have.\n  What to do: mend the file, or tunefit push a good one", f.path, said)
}
