package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/watch"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// MaxFileBytes is the size up to which a policy file or a model file is read; 100 000
// rows are about 5 MB.
const MaxFileBytes = model.MaxFileBytes

// MaxLiveBytes is the limit for an edit during a run, which all ranks compile while they
// work: some 150 000 rows take a second, and a larger edit would delay the next ones.
const MaxLiveBytes = 8 << 20

// readLimit bounds the wait for a file system.
const readLimit = 10 * time.Second

// file is one state of a policy file or a model file, and what it means. The many
// communicators of a process share it, so that it is compiled once.
type file struct {
	fileKey

	// Guarded by Loader.mu.
	id      watch.ID
	settled bool   // no later change can have left the id as it is
	text    []byte // for bundles and to compare

	parse  func() // once; sets what follows
	policy *policy.Policy
	model  *model.Model // of the two one is set, unless there is an error
	faults error        // in the text, one a line
	unread error        // the file could not be read
	report sync.Once
}

// fileKind tells a policy file and a model file apart, and what they are held to.
type fileKind struct {
	what  string
	under string // the setting by which one is held to more than usual, after "problems"
	show  string // the command that prints all that is wrong with one
	parse func(f *file, text []byte) error
}

const deterministic = " under " + DeterministicVariable + "=1"

var (
	policyKind = &fileKind{"policy", "", "tunefit show", func(f *file, text []byte) (err error) {
		f.policy, err = policy.ReadCSV(f.Path, text)
		return err
	}}
	modelKind = &fileKind{"model", "", "tunefit show --model", func(f *file, text []byte) (err error) {
		f.model, err = model.Read(f.Path, text)
		return err
	}}
	invariantPolicyKind = &fileKind{"policy", deterministic, "tunefit check --invariant",
		func(f *file, text []byte) error {
			p, err := policy.ReadCSV(f.Path, text)
			if err != nil {
				return err
			}
			if vary := p.CheckSums(); vary != nil {
				return vary
			}
			f.policy = p
			return nil
		}}
	invariantModelKind = &fileKind{"model", deterministic, "", func(f *file, _ []byte) error {
		return fmt.Errorf("%s: a model chooses by the size of the call, and sums must not depend on that (needed: "+
			"unset %s)", f.Path, f.Variable)
	}}
)

type fileKey struct {
	kind *fileKind
	Named
}

// filePair holds the states of a policy file and a model file that belong together. A file that is not named
// is nil. Two pairs are equal if their texts are equal, or the errors that replace the texts.
type filePair struct{ policy, model *file }

// loadFiles returns the states of the files that the settings name. It looks at each file again at every
// init. So a process that joins a running job starts a new communicator on the same version as the processes
// that are already there.
func (l *Loader) loadFiles(s Settings) filePair {
	rows, costs := policyKind, modelKind
	if s.Deterministic {
		rows, costs = invariantPolicyKind, invariantModelKind
	}
	return filePair{l.loadFile(fileKey{rows, s.Policy}, s), l.loadFile(fileKey{costs, s.Model}, s)}
}

// loadFile returns a file's state, nil for no file. A state with errors is kept like any
// other. With KeepFirst the first state stays.
func (l *Loader) loadFile(key fileKey, s Settings) *file {
	if key.Path == "" {
		return nil
	}
	l.mu.Lock()
	before := l.files[key]
	var known content
	if before != nil {
		known = content{id: before.id, settled: before.settled}
	}
	l.mu.Unlock()
	var found content
	var err error
	if before == nil || !s.KeepFirst {
		// No lock is held while the file system is asked.
		found, err = safefile.Within(l.timeouts, key.Path, readLimit, func() (content, error) {
			return l.readFile(key.Path, known, s)
		})
	}
	l.mu.Lock()
	f := l.files[key]
	switch {
	case f != nil && s.KeepFirst:
	case err != nil:
		if f == nil || f.unread == nil || f.unread.Error() != err.Error() {
			f = &file{fileKey: key, unread: err, parse: func() {}}
		}
	case found.known:
		f = before
	case f != nil && f.unread == nil && bytes.Equal(f.text, found.text):
		f.id, f.settled = found.id, found.settled
	default:
		f = &file{fileKey: key, id: found.id, settled: found.settled, text: found.text}
		f.parse = sync.OnceFunc(func() { f.faults = key.kind.parse(f, found.text) })
	}
	l.files[key] = f
	l.mu.Unlock()
	f.parse()
	return f
}

// content is what a file holds. known: it has not changed, and text is not read.
type content struct {
	id      watch.ID
	settled bool
	text    []byte
	known   bool
}

// readFile reads a file that has changed. A new state that is too large is not read.
func (l *Loader) readFile(path string, before content, s Settings) (c content, err error) {
	if before.settled {
		if info, err := os.Stat(path); err == nil && watch.Identify(info) == before.id {
			return content{known: true}, nil
		}
	}
	f, info, err := safefile.OpenOwned(path, s.Trust)
	if err != nil {
		return c, safefile.Reason(err)
	}
	defer f.Close()
	c.id = watch.Identify(info)
	if most := s.mostBytes(); info.Size() > most {
		c.known = c.id == before.id // and was read when more was allowed
		if !c.known {
			err = tooLarge(info.Size(), most)
		}
		return c, err
	}
	if c.text, err = io.ReadAll(io.LimitReader(f, s.mostBytes())); err != nil {
		return c, safefile.Reason(err)
	}
	c.settled = c.id.Settled()
	return c, nil
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
		f.logFailure(s.without(f.kind.what), log)
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

// logFailure says why a file is of no use, and what comes of it.
func (f *file) logFailure(outcome string, log telemetry.Log) {
	if f.unread != nil {
		log.Warnf("%s=%s: %v%s", f.Variable, f.Path, f.unread, outcome)
		return
	}
	faults := strings.Split(f.faults.Error(), "\n")
	problems := wording.Plural(len(faults), "problem") + f.kind.under
	said := log.Once(&f.report, func() {
		log.Warnf("%s has %s%s:", f.Path, problems, outcome)
		for i, fault := range faults {
			if i == maxWarned {
				log.Warnf("... and %d more; %s %s prints them all", len(faults)-i, f.kind.show, f.Path)
				return
			}
			log.Warnf("%s", fault)
		}
	})
	if !said {
		log.Warnf("%s: still has %s, reported before%s", f.Path, problems, outcome)
	}
}

func tooLarge(size, most int64) error {
	if most == MaxFileBytes {
		return fmt.Errorf("%s is too large (allowed: up to %s)", nccl.FormatBytes(uint64(size)),
			nccl.FormatBytes(MaxFileBytes))
	}
	return fmt.Errorf("%s is too large for a change during a run (allowed: up to %s; communicators that are created "+
		"later read up to %s)",
		nccl.FormatBytes(uint64(size)), nccl.FormatBytes(uint64(most)), nccl.FormatBytes(MaxFileBytes))
}
