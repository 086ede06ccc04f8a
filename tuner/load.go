package tuner

import (
	"cmp"
	"errors"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// errUnusable fails a strict init. What is wrong was logged.
var errUnusable = errors.New(EnvStrict + "=1 and there is no policy that can be used")

// loaded is the state of the settings' files when they were read.
type loaded struct {
	*version          // noFiles where nothing can be used
	read     filePair // all of them, as they were
	valid    bool     // nothing is wrong
}

// load reads the files that the settings name, at a communicator's init. What is wrong with
// them has been logged then. The error is for strict settings, and for files that hang.
func (p *Plugin) load(s settings, log telemetry.Log) (loaded, error) {
	if s.strict && s.configFile == "" && s.modelFile == "" {
		log.Warnf("%s=1 and neither %s nor %s is set", EnvStrict, EnvConfigFile, EnvModelFile)
		return loaded{}, errUnusable
	}
	// Only here: it stops the calls that need Go for milliseconds.
	defer p.garbage.giveBack()
	f := p.loadFiles(s)
	if err := cmp.Or(f.policy.hangs(), f.model.hangs()); err != nil {
		return loaded{}, err
	}
	return p.use(f, s, log)
}

// use logs what is wrong with files and returns the version of those that can be used.
func (p *Plugin) use(f filePair, s settings, log telemetry.Log) (l loaded, err error) {
	l = loaded{version: noFiles, read: f}
	policyOK, modelOK := f.policy.check(s, log), f.model.check(s, log)
	valid := policyOK && modelOK
	if !valid {
		p.exporter.FileRefused()
	}
	if s.strict && !valid {
		return l, errUnusable
	}
	if !modelOK {
		f.model = nil
	}
	if !policyOK {
		// Rows may restrict the model, so it must not decide without them. Rows need no
		// model.
		if !f.policy.isEmpty() {
			if f.model != nil && !s.reloading {
				log.Infof("%s is not used either", s.modelFile)
			}
			return l, nil
		}
		f.policy = nil
	}
	v, err := p.versionOf(f, log)
	if err == nil {
		l.version, l.valid = v, valid
	}
	return l, err
}
