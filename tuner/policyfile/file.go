package policyfile

// The first steps of an edit: read a file, find what is wrong with it, and say so in the log. Init and the watch of a
// running job go through loadFile.

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// DeterministicVariable asks for sums that do not change. What does not keep to that is refused.
const DeterministicVariable = "NCCL_TUNER_DETERMINISTIC"

// Named is a file and the setting that names it.
type Named struct {
	Variable string // for messages
	Path     string // "": no file
}

// Settings say which files make the policy and how they are read.
type Settings struct {
	Policy, Model Named
	KeepFirst     bool // what a file held when it was read first stays
	Trust         bool // files that others can write to are used
	Deterministic bool // a model is refused, and so is a policy in which policy.CheckSums finds a row

	// live: the files are read during a run, and a bad one leaves what is in force.
	live bool
}

// None reports that no file is named.
func (s Settings) None() bool { return s.Policy.Path == "" && s.Model.Path == "" }

// names names the files for a message.
func (s Settings) names() string {
	if s.Policy.Path == "" || s.Model.Path == "" {
		return s.Policy.Path + s.Model.Path
	}
	return s.Policy.Path + " and " + s.Model.Path
}

// MaxFileBytes is the size up to which a policy file or a model file is read; 100 000
// rows are about 5 MB.
const MaxFileBytes = model.MaxFileBytes

// MaxLiveBytes is the limit for an edit during a run, which all ranks compile while they
// work: some 150 000 rows take a second, and a larger edit would delay the next ones.
const MaxLiveBytes = 8 << 20

// readLimit bounds the wait for a file system.
const readLimit = 10 * time.Second

// file is one state of a policy file or a model file, and what it means. The communicators of a process share it, so
// that it is parsed once. A file that has changed is another state.
type file struct {
	fileKey
	text   []byte // guarded by Loader.mu: versionOf replaces it by equal bytes
	unread error  // the file could not be read

	parse  func() // once; sets what follows
	policy *policy.Policy
	model  *model.Model // policy or model is set, unless there is an error
	faults error        // in the text, one a line
	report sync.Once    // of its faults in the log
}

// fileKey names a file and the rules that it has to keep.
type fileKey struct {
	isModel       bool // else it is a policy
	deterministic bool // see Settings
	Named
}

// compile sets the policy or the model of a file.
func (f *file) compile(text []byte) (err error) {
	switch {
	case f.unread != nil:
		return nil
	case f.isModel && f.deterministic:
		return fmt.Errorf("%s: a model chooses by the size of the call, and sums must not depend on that (needed: "+
			"unset %s)", f.Path, f.Variable)
	case f.isModel:
		f.model, err = model.Read(f.Path, text)
		return err
	}
	p, err := policy.ReadCSV(f.Path, text)
	if err != nil {
		return err
	}
	if f.deterministic {
		if vary := p.CheckSums(); vary != nil {
			return vary
		}
	}
	f.policy = p
	return nil
}

// loadFiles returns the states of the policy file and the model file that the settings name, nil for no file. Two
// states are equal if the texts are equal, or the errors that replace the texts.
//
// It looks at each file again at every init. So a process that joins a running job starts a new communicator on the
// same version as the processes that are already there.
func (l *Loader) loadFiles(s Settings) [2]*file {
	return [2]*file{l.loadFile(fileKey{false, s.Deterministic, s.Policy}, s),
		l.loadFile(fileKey{true, s.Deterministic, s.Model}, s)}
}

// loadFile returns a file's state, nil for no file. A state with errors is kept like any
// other. With KeepFirst the first state stays.
func (l *Loader) loadFile(key fileKey, s Settings) *file {
	if key.Path == "" {
		return nil
	}
	l.mu.Lock()
	f := l.files[key]
	l.mu.Unlock()
	if f == nil || !s.KeepFirst {
		// No lock is held while the file system is asked.
		text, err := safefile.Within(l.timeouts, key.Path, readLimit,
			func() ([]byte, error) { return safefile.ReadOwned(key.Path, s.Trust, MaxFileBytes) })
		l.mu.Lock()
		f = l.files[key]
		if s.live && len(text) > MaxLiveBytes && !f.is(text, err) { // it was not read at an init
			text, err = nil, tooLarge(len(text))
		}
		if f == nil || !s.KeepFirst && !f.is(text, err) {
			f = &file{fileKey: key, text: text, unread: safefile.Reason(err)}
			f.parse = sync.OnceFunc(func() { f.faults = f.compile(text) })
			l.files[key] = f
		}
		l.mu.Unlock()
	}
	f.parse()
	return f
}

// is reports that a file that was read anew is in this state. The caller holds Loader.mu. f may be nil.
func (f *file) is(text []byte, unread error) bool {
	if f == nil || f.unread == nil || unread == nil {
		return f != nil && f.unread == unread && bytes.Equal(f.text, text)
	}
	return f.unread.Error() == safefile.Reason(unread).Error()
}

// otherRanks says why a rank fails if it cannot read a file that another rank may have read.
const otherRanks = "other ranks may have read it, and this one must not decide differently"

// hangs returns an error if the file was not read because its file system hangs. f may be
// nil.
func (f *file) hangs() error {
	if f == nil || !errors.As(f.unread, new(safefile.NoAnswer)) {
		return nil
	}
	return fmt.Errorf("the file that %s names: %w; %s", f.Variable, f.unread, otherRanks)
}

// check logs what is wrong with a file; ok is false if something is. f may be nil.
func (f *file) check(s Settings, log telemetry.Log) (ok bool) {
	switch {
	case f == nil || f.model != nil:
		return true
	case f.policy == nil:
		f.logFailure(s.live, log)
		return false
	}
	log.Once(&f.report, func() {
		if n := f.policy.NeverAsked; f.isEmpty() {
			log.Warnf("%s has no rows", f.Path)
		} else if n > 0 {
			log.Infof("%s: %s for operations that NCCL asks no tuner about, without effect", f.Path,
				wording.Plural(n, "row")+wording.Verb(n, " is", " are"))
		}
	})
	return !f.isEmpty()
}

// isEmpty reports that the file is a policy without rows.
func (f *file) isEmpty() bool { return f.policy != nil && len(f.policy.Rules) == 0 }

// maxWarned keeps a file of the wrong kind from flooding a job's log.
const maxWarned = 100

// logFailure says why a file is of no use, and what comes of it unless it is live.
func (f *file) logFailure(live bool, log telemetry.Log) {
	what, show, outcome := "policy", "tunefit show", ""
	if f.isModel {
		what, show = "model", "tunefit show --model"
	}
	if !live {
		outcome = "; no " + what + " is used"
	}
	if f.unread != nil {
		log.Warnf("%s=%s: %v%s", f.Variable, f.Path, f.unread, outcome)
		return
	}
	faults := strings.Split(f.faults.Error(), "\n")
	problems := wording.Plural(len(faults), "problem")
	if f.deterministic {
		problems, show = problems+" under "+DeterministicVariable+"=1", "tunefit check --invariant"
	}
	said := log.Once(&f.report, func() {
		log.Warnf("%s has %s%s:", f.Path, problems, outcome)
		for i, fault := range faults {
			if i == maxWarned {
				log.Warnf("... and %d more; %s %s prints them all", len(faults)-i, show, f.Path)
				return
			}
			log.Warnf("%s", fault)
		}
	})
	if !said {
		log.Warnf("%s: still has %s, reported before%s", f.Path, problems, outcome)
	}
}

func tooLarge(size int) error {
	return fmt.Errorf("%s is too large for a change during a run (allowed: up to %s; communicators that are created "+
		"later read up to %s)",
		nccl.FormatBytes(uint64(size)), nccl.FormatBytes(MaxLiveBytes), nccl.FormatBytes(MaxFileBytes))
}
