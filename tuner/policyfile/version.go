package policyfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// A Version is one state of the policy: what it is made from and what it means.
type Version struct {
	content []byte   // a bundle
	digest  string   // of the content
	from    filePair // guarded by Loader.mu: the files that it was read from last, if it was

	compile    func() error        // once; sets what follows
	engine     *policy.Engine      // nil: NCCL decides everything
	logMachine func(telemetry.Log) // says what the machine has to do with it
}

// None is the version of ranks that have no file that can be used. It leaves everything to NCCL.
var None = func() *Version {
	content := Bundle{}.Encode()
	return &Version{content: content, digest: agree.DigestOf(content)}
}()

// nothing is the meaning of a version that leaves everything to NCCL.
const nothing = "nothing"

// Engine returns what decides by the version; nil: NCCL decides everything.
func (v *Version) Engine() *policy.Engine { return v.engine }

// Meaning is the digest of what the version means on this machine.
func (v *Version) Meaning() string {
	if v.engine == nil {
		return nothing
	}
	return v.engine.Digest.Full()
}

// String names the version's files and its meaning for a message.
func (v *Version) String() string {
	b, err := DecodeBundle(v.content)
	if v.engine == nil || err != nil {
		return "NCCL's choice"
	}
	names := []string{b.Policy.Name, b.Model.Name, b.Added.Name}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	return fmt.Sprintf("%s (version %.12s)", strings.Join(names, " with "), v.Meaning())
}

// Bundle returns the files that the version is made from.
func (v *Version) Bundle() (Bundle, error) { return DecodeBundle(v.content) }

// Shared is the version as the ranks' agreement knows it.
func (v *Version) Shared() agree.Version {
	return agree.Version{Content: v.content, Digest: v.digest, Meaning: v.Meaning()}
}

// maxVersions bounds the memory. Versions follow each other: one is in force, one may be
// on its way, and communicators may be behind.
const maxVersions = 4

// find returns one of the latest versions; nil for none. l.mu must be held.
func (l *Loader) find(is func(*Version) bool) *Version {
	i := slices.IndexFunc(l.versions, is)
	if i < 0 {
		return nil
	}
	v := l.versions[i]
	l.versions = append(slices.Delete(l.versions, i, i+1), v)
	return v
}

// versionOf returns the version of a pair of files, of which one may be nil. It is the only place that makes
// bundles. The files' texts then point into the bundle, so that one copy stays in memory. Making a bundle
// takes as long as the rest of a communicator's init.
func (l *Loader) versionOf(f filePair, log telemetry.Log) (*Version, error) {
	if f == (filePair{}) {
		return None, nil
	}
	l.mu.Lock()
	v := l.find(func(v *Version) bool { return v.from == f })
	if v == nil {
		var b Bundle
		var rows *policy.Policy
		var costs *model.Model
		if f.policy != nil {
			rows, b.Policy = f.policy.policy, Source{f.policy.Path, f.policy.text}
		}
		if f.model != nil {
			costs, b.Model = f.model.model, Source{f.model.Path, f.model.text}
		}
		content := b.Encode()
		v = l.enter(content, agree.DigestOf(content), func() (*policy.Policy, *model.Model, error) {
			return rows, costs, nil
		})
		v.from = f
		texts := v.content[len(v.content)-len(b.Policy.Text)-len(b.Model.Text):]
		if f.policy != nil {
			f.policy.text = texts[:len(b.Policy.Text)]
		}
		if f.model != nil {
			f.model.text = texts[len(b.Policy.Text):]
		}
	}
	l.mu.Unlock()
	return v.ready(log)
}

// Decode returns the version of a content that some rank has put. digest is the content's agree.DigestOf.
func (l *Loader) Decode(content []byte, digest string, log telemetry.Log) (*Version, error) {
	l.mu.Lock()
	v := l.enter(content, digest, func() (rows *policy.Policy, costs *model.Model, err error) {
		b, err := DecodeBundle(content)
		if err == nil && b.Policy.Name != "" {
			rows, err = policy.ReadCSV(b.Policy.Name, b.Policy.Text)
		}
		if err == nil && b.Added.Name != "" {
			var added *policy.Policy
			if added, err = policy.ReadCSV(b.Added.Name, b.Added.Text); err == nil {
				rows = rows.With(added)
			}
		}
		if err == nil && b.Model.Name != "" {
			costs, err = model.Read(b.Model.Name, b.Model.Text)
		}
		return rows, costs, firstProblem(err)
	})
	l.mu.Unlock()
	return v.ready(log)
}

// enter returns the version of a digest. All communicators of the process share it, so that
// it is compiled once. l.mu must be held.
func (l *Loader) enter(content []byte, digest string, parse func() (*policy.Policy, *model.Model, error)) *Version {
	if v := l.find(func(v *Version) bool { return v.digest == digest }); v != nil {
		return v
	}
	v := &Version{content: content, digest: digest}
	v.compile = sync.OnceValue(func() error {
		rows, costs, err := parse()
		if err != nil {
			return err
		}
		var here *model.Machine
		needsTopology := policy.NeedsTopology(rows, costs)
		if needsTopology {
			if here, err = l.findMachine(); err != nil {
				return err
			}
		}
		e := policy.NewEngine(rows, costs, here)
		if e.Policy != nil || e.Model != nil {
			v.engine = e
		}
		var said sync.Once
		v.logMachine = func(log telemetry.Log) {
			if needsTopology {
				l.logMachine(log)
			}
			switch {
			case e.Standing == model.AnyMachine:
			case e.Standing.Abstains():
				log.Once(&said, func() { log.Warnf("the model %s %s", costs.Name, e.Standing) })
			default:
				log.Once(&said, func() { log.Infof("the model %s %s", costs.Name, e.Standing) })
			}
		}
		return nil
	})
	if len(l.versions) == maxVersions {
		l.versions = slices.Delete(l.versions, 0, 1)
	}
	l.versions = append(l.versions, v)
	return v
}

// ready compiles the version, if nobody has yet, and returns it.
func (v *Version) ready(log telemetry.Log) (*Version, error) {
	if err := v.compile(); err != nil {
		return nil, err
	}
	v.logMachine(log)
	return v, nil
}

// firstProblem keeps the record of a veto short. The rank whose file it is has compiled it,
// so a problem here means that builds differ.
func firstProblem(err error) error {
	var problems policy.Problems
	if errors.As(err, &problems) && len(problems) > 1 {
		return fmt.Errorf("%v, and %d more", problems[0], len(problems)-1)
	}
	return err
}
