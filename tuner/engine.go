package tuner

import (
	"errors"
	"strings"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
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
	model  *policy.Model
	engine *policy.Engine
	noted  sync.Once
}

// errUnusable fails a strict init. What is wrong was logged.
var errUnusable = errors.New(EnvStrict + "=1 and there is no policy that can be used")

// loadEngine reads what the settings name; nil where that comes to nothing. What is
// wrong has been logged then. The error is for strict settings only.
func loadEngine(s settings, getenv func(string) string, log Log) (*policy.Engine, error) {
	if s.configFile == "" && s.modelFile == "" {
		if !s.strict {
			return nil, nil
		}
		log.Warnf("%s=1 and neither %s nor %s is set", EnvStrict, EnvConfigFile, EnvModelFile)
		return nil, errUnusable
	}
	defer giveBackGarbage()
	model := s.openModel()
	p, ok := loadPolicy(s, log)
	m, modelOK := checkModel(model(), s, log)
	if s.strict && !(ok && modelOK) {
		return nil, errUnusable
	}
	// Rows may be there to keep the model from something. Without them it is not to
	// decide, while rows need no model.
	if !ok && p == nil && m != nil {
		log.Infof("%s is not used either", s.modelFile)
		return nil, nil
	}
	if p != nil && len(p.Rules) == 0 {
		p = nil
	}
	if p == nil && m == nil {
		return nil, nil
	}
	return engines.of(p, m, getenv, log), nil
}

// of returns the engine of a policy and a model, of which one may be nil; nil where
// neither decides anything on this machine.
func (c *engineCache) of(p *policy.Policy, m *policy.Model, getenv func(string) string, log Log) *policy.Engine {
	var here *policy.Machine
	if policy.NeedsTopology(p, m) {
		here = machine.get(getenv, log)
	}
	c.mu.Lock()
	if c.last == nil || c.last.policy != p || c.last.model != m {
		c.last = &engineVersion{policy: p, model: m, engine: policy.NewEngine(p, m, here)}
	}
	v := c.last
	c.mu.Unlock()
	if standing := v.engine.Standing; standing != policy.AnyMachine {
		sayOnce(&v.noted, log, func() {
			if standing.Silent() {
				log.Warnf("the model %s %s", m.Name, standing)
			} else {
				log.Infof("the model %s %s", m.Name, standing)
			}
		})
	}
	if v.engine.Policy == nil && v.engine.Model == nil {
		return nil
	}
	return v.engine
}

// loadPolicy says what is wrong with the policy file. ok is false if something is; the
// policy is nil then, but for a file that only has no rows.
func loadPolicy(s settings, log Log) (p *policy.Policy, ok bool) {
	if s.configFile == "" {
		return nil, true
	}
	v := policies.load(s.configFile)
	switch {
	case v.compiled == nil:
		v.logFailure(s.configFile, EnvConfigFile, "policy", "tunefit show", log)
		return nil, false
	case len(v.compiled.Rules) == 0:
		v.reportOnce(log, func() { log.Warnf("%s has no rows", s.configFile) })
		return v.compiled, false
	}
	v.reportOnce(log, func() { infoNeverAsked(s.configFile, v.compiled.NeverAsked, log) })
	return v.compiled, true
}

// openModel returns what waits for the model file, nil for none. The first time it is
// read beside the policy, which saves the job some milliseconds.
func (s settings) openModel() (wait func() *fileVersion[policy.Model]) {
	load := func() *fileVersion[policy.Model] { return models.load(s.modelFile) }
	switch {
	case s.modelFile == "":
		return func() *fileVersion[policy.Model] { return nil }
	case s.configFile == "" || models.has(s.modelFile):
		return load
	}
	return async(load)
}

// checkModel says what is wrong with the model file; ok is false if something is. v is
// nil where none is named.
func checkModel(v *fileVersion[policy.Model], s settings, log Log) (m *policy.Model, ok bool) {
	if v == nil {
		return nil, true
	}
	if v.compiled == nil {
		v.logFailure(s.modelFile, EnvModelFile, "model", "tunefit show --model", log)
		return nil, false
	}
	return v.compiled, true
}

func infoNeverAsked(file string, rows int, log Log) {
	if rows > 0 {
		log.Infof("%s: %s for operations that NCCL asks no tuner about, without effect", file, plural(rows, "row is", "rows are"))
	}
}

// maxWarned keeps a file of the wrong kind from flooding a job's log.
const maxWarned = 100

// logFailure says why a file that a variable names is of no use.
func (v *fileVersion[T]) logFailure(file, variable, what, show string, log Log) {
	if v.unread != nil {
		log.Warnf("%s=%s: %v; no %s is used", variable, file, v.unread, what)
		return
	}
	faults := strings.Split(v.faults.Error(), "\n")
	said := v.reportOnce(log, func() {
		log.Warnf("%s has %s; no %s is used:", file, plural(len(faults), "problem", "problems"), what)
		for i, f := range faults {
			if i == maxWarned {
				log.Warnf("... and %d more; %s %s prints them all", len(faults)-i, show, file)
				return
			}
			log.Warnf("%s", f)
		}
	})
	if !said {
		log.Warnf("%s: still has %s, reported before; no %s is used", file, plural(len(faults), "problem", "problems"), what)
	}
}
