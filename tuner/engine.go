package tuner

import (
	"cmp"
	"errors"
	"strings"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// engines keeps the engine of the latest versions of both files: what a process's
// communicators share.
var engines engineCache

type engineCache struct {
	mu   sync.Mutex
	last *engineVersion
}

// engineVersion is an engine and what it was made from.
type engineVersion struct {
	policy *policy.Policy
	model  *model.Model
	engine *policy.Engine
	noted  sync.Once
}

// errUnusable fails a strict init. What is wrong was logged.
var errUnusable = errors.New(EnvStrict + "=1 and there is no policy that can be used")

// loadVersion reads the files that the settings name. What is wrong with them has
// been logged then; the version leaves everything to NCCL in that case, and sound is
// false. The error is for strict settings only.
func loadVersion(s settings, getenv func(string) string, log Log) (v version, sound bool, err error) {
	v.content, v.digest = noFiles.content, noFiles.digest
	if s.configFile == "" && s.modelFile == "" {
		if !s.strict {
			return v, true, nil
		}
		log.Warnf("%s=1 and neither %s nor %s is set", EnvStrict, EnvConfigFile, EnvModelFile)
		return v, false, errUnusable
	}
	if !s.keeping {
		// Only at init: it stops the calls that need Go for milliseconds.
		defer giveBackGarbage()
	}
	waitForModel := s.openModel()
	pv := s.openPolicy()
	mv := waitForModel()
	v.read = readStates{pv.state(), mv.state()}
	if err := cmp.Or(pv.hangs(EnvConfigFile), mv.hangs(EnvModelFile)); err != nil && !s.keeping {
		return v, false, err
	}
	p, ok := checkPolicy(pv, s, log)
	m, modelOK := checkModel(mv, s, log)
	sound = ok && modelOK
	if s.strict && !sound {
		return v, false, errUnusable
	}
	// Rows may be there to keep the model from something. Without them it is not to
	// decide, while rows need no model.
	if !ok && p == nil && m != nil {
		if !s.keeping {
			log.Infof("%s is not used either", s.modelFile)
		}
		return v, false, nil
	}
	var rows *policy.Policy
	var model *model.Model
	if p != nil && len(p.compiled.Rules) == 0 {
		p = nil
	}
	if p != nil {
		rows = p.compiled
	}
	if m != nil {
		model = m.compiled
	}
	if v.engine, err = engines.of(rows, model, getenv, log); err != nil {
		return v, false, err
	}
	if s.reload == reloadLive {
		v.content, v.digest = bundles.of(s, p, m)
		staged.note(v)
	}
	return v, sound, nil
}

// of returns the engine of a policy and a model, of which one may be nil; nil where
// neither decides anything on this machine. It is an error if what the machine is
// cannot be found out because something hangs.
func (c *engineCache) of(p *policy.Policy, m *model.Model, getenv func(string) string, log Log) (*policy.Engine, error) {
	if p == nil && m == nil {
		return nil, nil
	}
	var here *model.Machine
	if policy.NeedsTopology(p, m) {
		var err error
		if here, err = machine.get(getenv, log); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	if c.last == nil || c.last.policy != p || c.last.model != m {
		c.last = &engineVersion{policy: p, model: m, engine: policy.NewEngine(p, m, here)}
	}
	v := c.last
	c.mu.Unlock()
	if standing := v.engine.Standing; standing != model.AnyMachine {
		sayOnce(&v.noted, log, func() {
			if standing.Silent() {
				log.Warnf("the model %s %s", m.Name, standing)
			} else {
				log.Infof("the model %s %s", m.Name, standing)
			}
		})
	}
	if v.engine.Policy == nil && v.engine.Model == nil {
		return nil, nil
	}
	return v.engine, nil
}

// openPolicy returns nil for none.
func (s settings) openPolicy() *fileVersion[policy.Policy] {
	if s.configFile == "" {
		return nil
	}
	return policies.load(s.configFile, s.mostBytes())
}

// checkPolicy says what is wrong with the policy file; ok is false if something is. The
// result is nil then, but for a file that only has no rows. v is nil where none is
// named.
func checkPolicy(v *fileVersion[policy.Policy], s settings, log Log) (p *fileVersion[policy.Policy], ok bool) {
	switch {
	case v == nil:
		return nil, true
	case v.compiled == nil:
		v.logFailure(s.configFile, EnvConfigFile, s.without("policy"), "tunefit show", log)
		return nil, false
	case len(v.compiled.Rules) == 0:
		v.reportOnce(log, func() { log.Warnf("%s has no rows", s.configFile) })
		return v, false
	}
	v.reportOnce(log, func() { infoNeverAsked(s.configFile, v.compiled.NeverAsked, log) })
	return v, true
}

// openModel returns what waits for the model file, nil for none. The first time it is
// read beside the policy, which saves the job some milliseconds.
func (s settings) openModel() (wait func() *fileVersion[model.Model]) {
	load := func() *fileVersion[model.Model] { return models.load(s.modelFile, s.mostBytes()) }
	switch {
	case s.modelFile == "":
		return func() *fileVersion[model.Model] { return nil }
	case s.configFile == "" || models.has(s.modelFile):
		return load
	}
	return async(load)
}

// checkModel says what is wrong with the model file; ok is false if something is. v is
// nil where none is named.
func checkModel(v *fileVersion[model.Model], s settings, log Log) (m *fileVersion[model.Model], ok bool) {
	if v == nil {
		return nil, true
	}
	if v.compiled == nil {
		v.logFailure(s.modelFile, EnvModelFile, s.without("model"), "tunefit show --model", log)
		return nil, false
	}
	return v, true
}

func infoNeverAsked(file string, rows int, log Log) {
	if rows > 0 {
		log.Infof("%s: %s for operations that NCCL asks no tuner about, without effect", file, plural(rows, "row is", "rows are"))
	}
}

// maxWarned keeps a file of the wrong kind from flooding a job's log.
const maxWarned = 100

// logFailure says why a file that a variable names is of no use, and what comes of
// it.
func (v *fileVersion[T]) logFailure(file, variable, outcome, show string, log Log) {
	if v.unread != nil {
		log.Warnf("%s=%s: %v%s", variable, file, v.unread, outcome)
		return
	}
	faults := strings.Split(v.faults.Error(), "\n")
	said := v.reportOnce(log, func() {
		log.Warnf("%s has %s%s:", file, plural(len(faults), "problem", "problems"), outcome)
		for i, f := range faults {
			if i == maxWarned {
				log.Warnf("... and %d more; %s %s prints them all", len(faults)-i, show, file)
				return
			}
			log.Warnf("%s", f)
		}
	})
	if !said {
		log.Warnf("%s: still has %s, reported before%s", file, plural(len(faults), "problem", "problems"), outcome)
	}
}

// firsts keeps, for NCCL_TUNER_RELOAD=off, what the first communicator of a process
// found in its files.
var firsts = firstVersions{byNames: map[[2]string]*firstVersion{}}

type firstVersions struct {
	mu      sync.Mutex
	byNames map[[2]string]*firstVersion
}

type firstVersion struct {
	version
	sound bool
	err   error
}

func (f *firstVersions) of(s settings, getenv func(string) string, log Log) (v version, sound bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := [2]string{s.configFile, s.modelFile}
	if f.byNames[key] == nil {
		v, sound, err := loadVersion(s, getenv, log)
		f.byNames[key] = &firstVersion{v, sound, err}
	}
	first := f.byNames[key]
	return first.version, first.sound, first.err
}
