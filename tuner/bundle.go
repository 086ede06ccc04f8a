package tuner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree"
)

// Bundle is a version of the policy as ranks pass it on: the files that it is made
// from. A rank that was told no file of a kind, or has a bad one, passes on none; a
// bundle without files leaves everything to NCCL.
type Bundle struct {
	Policy, Model Source
}

// Source is a file's name, for messages, and its text. Without a name there is none.
type Source struct {
	Name string
	Text []byte
}

// bundleFormat is the first line of a bundle. Then come the names and lengths of the
// files, as one line of JSON, and the files.
const bundleFormat = "nccl-tuner-go bundle 1\n"

type bundleHead struct {
	Policy, Model       string
	PolicyLen, ModelLen int
}

func (b Bundle) encode() []byte {
	head, err := json.Marshal(bundleHead{b.Policy.Name, b.Model.Name, len(b.Policy.Text), len(b.Model.Text)})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return bytes.Join([][]byte{[]byte(bundleFormat), head, []byte("\n"), b.Policy.Text, b.Model.Text}, nil)
}

// DecodeBundle reads the content of a version.
func DecodeBundle(content []byte) (b Bundle, err error) {
	rest, ok := bytes.CutPrefix(content, []byte(bundleFormat))
	line, files, found := bytes.Cut(rest, []byte("\n"))
	if !ok || !found {
		return b, errors.New("the version is no bundle of policy files; do the ranks run the same build?")
	}
	var head bundleHead
	if err := json.Unmarshal(line, &head); err != nil {
		return b, fmt.Errorf("the bundle of policy files is damaged: %w", err)
	}
	if head.PolicyLen < 0 || head.ModelLen < 0 || head.PolicyLen+head.ModelLen != len(files) {
		return b, errors.New("the bundle of policy files is damaged: it does not have the length it says")
	}
	b.Policy = Source{head.Policy, files[:head.PolicyLen]}
	b.Model = Source{head.Model, files[head.PolicyLen:]}
	return b, nil
}

// noFiles is the version of ranks that have no file.
var noFiles = func() encoded {
	content := Bundle{}.encode()
	return encoded{content: content, digest: agree.DigestOf(content)}
}()

// bundles keeps the bundle of the files as read last, for the communicators of a
// process: to make one takes as long as a communicator's init may.
var bundles bundleCache

type bundleCache struct {
	mu   sync.Mutex
	last encoded
}

type encoded struct {
	of      readStates
	content []byte
	digest  string
}

// of returns the bundle of two files, of which either may be nil. It is the only one
// to use their texts, and leaves but one copy of them in memory.
func (c *bundleCache) of(s settings, p *fileVersion[policy.Policy], m *fileVersion[model.Model]) (content []byte, digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := (readStates{p.state(), m.state()}); c.last.content == nil || c.last.of != of {
		var b Bundle
		if p != nil {
			b.Policy = Source{s.configFile, p.text}
		}
		if m != nil {
			b.Model = Source{s.modelFile, m.text}
		}
		content := b.encode()
		c.last = encoded{of, content, agree.DigestOf(content)}
		b.Policy.Text, b.Model.Text = b.textsIn(content)
		if p != nil {
			p.text = b.Policy.Text
		}
		if m != nil {
			m.text = b.Model.Text
		}
	}
	return c.last.content, c.last.digest
}

// textsIn returns the texts as they lie in the encoded bundle, at its end.
func (b Bundle) textsIn(content []byte) (policy, model []byte) {
	at := len(content) - len(b.Model.Text)
	return content[at-len(b.Policy.Text) : at], content[at:]
}
