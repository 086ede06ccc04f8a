package livejobs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// watchedFile is a file that running ranks read again when it changes.
type watchedFile struct {
	path  string
	model bool
}

// read returns the file's text as ranks read it, and all that is wrong with it. Ranks read no compressed file.
func (f watchedFile) read() (text []byte, err error) {
	in := new(cli.Inputs)
	if text, err = f.unpacked(in); err != nil {
		return nil, err
	}
	if packed, err := in.IsPacked(f.path); err != nil || packed {
		return nil, fmt.Errorf("%s is compressed, which the library does not read", f.path)
	}
	return text, nil
}

// unpacked is like read, and unpacks a compressed file: push writes its text elsewhere.
func (f watchedFile) unpacked(in *cli.Inputs) (text []byte, err error) {
	if f.model {
		_, text, err = ask.ReadModel(in, f.path)
	} else {
		_, text, err = ask.ReadPolicy(in, f.path)
	}
	return text, err
}

// note says what keeps ranks on this machine from the file as it is now.
func (f watchedFile) note() string {
	if !filepath.IsAbs(f.path) {
		return ""
	}
	_, err := f.read()
	if err == nil {
		return ""
	}
	said, _, _ := strings.Cut(err.Error(), "\n")
	var problems policy.Problems
	if errors.As(err, &problems) {
		if said = fmt.Sprint(problems[0]); len(problems) > 1 {
			said += fmt.Sprintf(", and %s more", wording.Plural(len(problems)-1, "problem"))
		}
	}
	return fmt.Sprintf("%s cannot be used as it is now: %s.\n  The ranks keep the version they have.\n  What to do: "+
		"mend the file, or tunefit push a good one", f.path, said)
}
