package policyfile

import (
	"cmp"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// A Loader makes the versions of a process. Any goroutine may call its methods.
type Loader struct {
	// Find finds the machine; FindMachine unless a test sets another one.
	Find func(getenv func(string) string) (*model.Machine, detect.Source, error)

	getenv   func(string) string
	timeouts *safefile.Timeouts
	refused  func()
	machine  machine

	watching sync.Mutex // guards watched
	watched  map[[2]Named]*watchedSet

	mu       sync.Mutex // guards what follows; held while a bundle is made, at most
	files    map[fileKey]*file
	versions []*Version // the latest, see find
}

// NewLoader returns a loader that has read nothing yet. refused is called each time that files
// were read and something was wrong with them.
func NewLoader(getenv func(string) string, t *safefile.Timeouts, refused func()) *Loader {
	return &Loader{Find: FindMachine, getenv: getenv, timeouts: t, refused: refused, files: map[fileKey]*file{},
		watched: map[[2]Named]*watchedSet{}}
}

// Loaded is the version of the settings' files as they were when they were read.
type Loaded struct {
	*Version      // None where nothing can be used
	Valid    bool // nothing is wrong with the files

	read filePair // all of them, as they were
}

// Load reads the files that the settings name, at a communicator's init. It logs what is wrong
// with them. The error is for files that hang: other ranks may have read them.
func (l *Loader) Load(s Settings, log telemetry.Log) (Loaded, error) {
	f := l.loadFiles(s)
	if err := cmp.Or(f.policy.hangs(), f.model.hangs()); err != nil {
		return Loaded{}, err
	}
	return l.use(f, s, log)
}

// LoadLive reads files during a run.
func (l *Loader) LoadLive(s Settings, log telemetry.Log) (Loaded, error) {
	s.live = true
	return l.use(l.loadFiles(s), s, log)
}

// use logs what is wrong with files and returns the version of those that can be used.
func (l *Loader) use(f filePair, s Settings, log telemetry.Log) (loaded Loaded, err error) {
	loaded = Loaded{Version: None, read: f}
	policyOK, modelOK := f.policy.check(s, log), f.model.check(s, log)
	if !policyOK || !modelOK {
		l.refused()
	}
	if !modelOK {
		f.model = nil
	}
	if !policyOK {
		// Rows may restrict the model, so it must not decide without them. Rows need no
		// model.
		if !f.policy.isEmpty() {
			if f.model != nil && !s.live {
				log.Infof("%s is not used either", s.Model.Path)
			}
			return loaded, nil
		}
		f.policy = nil
	}
	v, err := l.versionOf(f, log)
	if err == nil {
		loaded.Version, loaded.Valid = v, policyOK && modelOK
	}
	return loaded, err
}
