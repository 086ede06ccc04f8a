package policyfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// DefaultPass is the name of a pass that is left to NCCL.
const DefaultPass = "default"

// A Pass is one run of a program over all its sizes, and the version that decides in it.
type Pass struct {
	Name string // a policy file beside the file of passes, or DefaultPass
	*Version
}

// LoadPasses reads a file that names the policy of each pass, one a line, and these policies. A model of the settings
// completes each but DefaultPass. Unlike Load it fails if anything cannot be used: a rank without it would decide
// otherwise than the others.
func (l *Loader) LoadPasses(plan Named, s Settings, log telemetry.Log) ([]Pass, error) {
	text, err := safefile.Within(l.timeouts, plan.Path, readLimit,
		func() ([]byte, error) { return safefile.ReadOwned(plan.Path, s.Trust, MaxFileBytes) })
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", plan.Variable, plan.Path, safefile.Reason(err))
	}
	names, err := passNames(plan.Path, string(text))
	if err != nil {
		return nil, err
	}
	loaded := map[string]*Version{DefaultPass: None}
	passes := make([]Pass, len(names))
	for i, name := range names {
		v := loaded[name]
		if v == nil {
			s.Policy = Named{Variable: plan.Variable, Path: filepath.Join(filepath.Dir(plan.Path), name)}
			if v, err = l.Load(s, log); err != nil {
				return nil, err
			}
			if v.Faulty {
				return nil, fmt.Errorf("%s:%d: %s cannot be used", plan.Path, i+1, wording.Quote(name))
			}
			loaded[name] = v
		}
		passes[i] = Pass{name, v}
	}
	return passes, nil
}

// mostFaults bounds what is said of one file.
const mostFaults = 20

// passNames reads a file of passes.
func passNames(file, text string) (names []string, err error) {
	const needed = "(needed: on each line the name of a policy file in the same directory, or " + DefaultPass + ")"
	if text == "" {
		return nil, fmt.Errorf("%s is empty %s", file, needed)
	}
	var faults []error
	for line := range strings.Lines(text) {
		name := strings.TrimRight(line, "\r\n")
		if slices.Contains([]string{"", ".", ".."}, name) || strings.Contains(name, "/") ||
			strings.TrimSpace(name) != name {
			faults = append(faults, fmt.Errorf("%s:%d: %s is not a file's name %s", file, len(names)+1,
				wording.Quote(name), needed))
		}
		if len(faults) == mostFaults {
			break
		}
		names = append(names, name)
	}
	return names, errors.Join(faults...)
}
