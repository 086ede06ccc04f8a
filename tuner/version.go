package tuner

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// version is one state of the policy: what it is made from and what it means.
type version struct {
	content []byte   // a bundle
	digest  string   // of the content
	from    filePair // guarded by Plugin.mu: the files that it was read from last, if it was

	compile    func() error        // once; sets what follows
	engine     *policy.Engine      // nil: NCCL decides everything
	logMachine func(telemetry.Log) // says what the machine has to do with it
}

// noFiles is the version of ranks that have no file that can be used.
var noFiles = func() *version {
	content := Bundle{}.encode()
	return &version{content: content, digest: agree.DigestOf(content)}
}()

// nothing is the meaning of a version that leaves everything to NCCL.
const nothing = "nothing"

// Meaning is the digest of what the version means on this machine.
func (v *version) Meaning() string {
	if v.engine == nil {
		return nothing
	}
	return v.engine.Digest.Full()
}

func (v *version) String() string {
	b, err := DecodeBundle(v.content)
	name := b.Policy.Name + b.Model.Name
	switch {
	case v.engine == nil || err != nil:
		return "NCCL alone"
	case b.Policy.Name != "" && b.Model.Name != "":
		name = b.Policy.Name + " with " + b.Model.Name
	}
	return fmt.Sprintf("%s (version %.12s)", name, v.Meaning())
}

// shared is the version as the ranks' agreement knows it.
func (v *version) shared() agree.Version {
	return agree.Version{Content: v.content, Digest: v.digest, Meaning: v.Meaning()}
}

// maxVersions bounds the memory. Versions follow each other: one is in force, one may be
// on its way, and communicators may be behind.
const maxVersions = 4

// find returns one of the latest versions; nil for none. p.mu must be held.
func (p *Plugin) find(is func(*version) bool) *version {
	i := slices.IndexFunc(p.versions, is)
	if i < 0 {
		return nil
	}
	v := p.versions[i]
	p.versions = append(slices.Delete(p.versions, i, i+1), v)
	return v
}

// versionOf returns the version of a pair of files, of which one may be nil. Only here
// bundles are made, and the files' texts then point into the bundle, so that one copy stays
// in memory. Making a bundle takes as long as the rest of a communicator's init.
func (p *Plugin) versionOf(f filePair, log telemetry.Log) (*version, error) {
	if f == (filePair{}) {
		return noFiles, nil
	}
	p.mu.Lock()
	v := p.find(func(v *version) bool { return v.from == f })
	if v == nil {
		var b Bundle
		var rows *policy.Policy
		var costs *model.Model
		if f.policy != nil {
			rows, b.Policy = f.policy.policy, Source{f.policy.path, f.policy.text}
		}
		if f.model != nil {
			costs, b.Model = f.model.model, Source{f.model.path, f.model.text}
		}
		content := b.encode()
		v = p.enter(content, agree.DigestOf(content), func() (*policy.Policy, *model.Model, error) { return rows, costs, nil })
		v.from = f
		texts := v.content[len(v.content)-len(b.Policy.Text)-len(b.Model.Text):]
		if f.policy != nil {
			f.policy.text = texts[:len(b.Policy.Text)]
		}
		if f.model != nil {
			f.model.text = texts[len(b.Policy.Text):]
		}
	}
	p.mu.Unlock()
	return v.ready(log)
}

// versionFrom returns the version of a content that some rank has put, by its digest.
func (p *Plugin) versionFrom(content []byte, digest string, log telemetry.Log) (*version, error) {
	p.mu.Lock()
	v := p.enter(content, digest, func() (rows *policy.Policy, costs *model.Model, err error) {
		b, err := DecodeBundle(content)
		if err == nil && b.Policy.Name != "" {
			rows, err = policy.ReadCSV(b.Policy.Name, b.Policy.Text)
		}
		if err == nil && b.Model.Name != "" {
			costs, err = model.Read(b.Model.Name, b.Model.Text)
		}
		return rows, costs, firstProblem(err)
	})
	p.mu.Unlock()
	return v.ready(log)
}

// enter returns the version of a digest. All communicators of the process share it, so that
// it is compiled once. p.mu must be held.
func (p *Plugin) enter(content []byte, digest string, parse func() (*policy.Policy, *model.Model, error)) *version {
	if v := p.find(func(v *version) bool { return v.digest == digest }); v != nil {
		return v
	}
	v := &version{content: content, digest: digest}
	v.compile = sync.OnceValue(func() error {
		rows, costs, err := parse()
		if err != nil {
			return err
		}
		var here *model.Machine
		needsTopology := policy.NeedsTopology(rows, costs)
		if needsTopology {
			if here, err = p.findMachine(); err != nil {
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
				p.logMachine(log)
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
	if len(p.versions) == maxVersions {
		p.versions = slices.Delete(p.versions, 0, 1)
	}
	p.versions = append(p.versions, v)
	return v
}

// ready compiles the version, if nobody has yet, and returns it.
func (v *version) ready(log telemetry.Log) (*version, error) {
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
