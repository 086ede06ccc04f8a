package tuner

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree"
)

// version is one state of the policy: what it is made from and what it means.
type version struct {
	content []byte         // a bundle
	digest  string         // of the content
	engine  *policy.Engine // nil: NCCL decides everything
	read    readStates     // of the files that it was read from, if it was
}

// shared is the version as the ranks' agreement knows it.
func (v version) shared() agree.Version {
	return agree.Version{Content: v.content, Digest: v.digest, Meaning: v.meaning()}
}

// readStates are the states of the policy file and the model file.
type readStates [2]any

// nothing is the meaning of a version that leaves everything to NCCL.
const nothing = "nothing"

func (v version) meaning() string {
	if v.engine == nil {
		return nothing
	}
	return v.engine.Digest.Full()
}

// staged keeps the versions that this process has compiled of late: its
// communicators share them, and mostly they come from its own files.
var staged = stagedVersions{latest: map[string]*policy.Engine{}}

type stagedVersions struct {
	mu     sync.Mutex
	latest map[string]*policy.Engine // by the digest of the content
}

// maxStaged bounds the memory. Versions follow each other: one is in force, one may
// be on its way, and communicators may be behind.
const maxStaged = 8

// note remembers what a version means.
func (s *stagedVersions) note(v version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.latest) >= maxStaged {
		clear(s.latest)
	}
	s.latest[v.digest] = v.engine
}

// compile returns the version that a content is.
func (s *stagedVersions) compile(content []byte, getenv func(string) string, log Log) (version, error) {
	digest := agree.DigestOf(content)
	s.mu.Lock()
	e, known := s.latest[digest]
	s.mu.Unlock()
	if known {
		return version{content: content, digest: digest, engine: e}, nil
	}
	b, err := DecodeBundle(content)
	if err != nil {
		return version{}, err
	}
	var p *policy.Policy
	var m *model.Model
	if b.Policy.Name != "" {
		if p, err = policy.ReadCSV(b.Policy.Name, b.Policy.Text); err != nil {
			return version{}, firstProblem(err)
		}
	}
	if b.Model.Name != "" {
		if m, err = model.Read(b.Model.Name, b.Model.Text); err != nil {
			return version{}, firstProblem(err)
		}
	}
	v := version{content: content, digest: digest}
	if v.engine, err = engines.of(p, m, getenv, log); err != nil {
		return version{}, err
	}
	s.note(v)
	return v, nil
}

// firstProblem keeps a record short. The rank whose file it is has checked it, so
// that this is a matter of builds that differ.
func firstProblem(err error) error {
	var problems policy.Problems
	if errors.As(err, &problems) && len(problems) > 1 {
		return fmt.Errorf("%v, and %d more", problems[0], len(problems)-1)
	}
	return err
}
