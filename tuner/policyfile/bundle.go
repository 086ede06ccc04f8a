package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Bundle is a version of the policy as ranks pass it on: the files that it is made from. A rank that has no
// usable file of a kind passes on none of that kind. A bundle without files leaves everything to NCCL.
type Bundle struct {
	Policy, Model Source
	// Added has rows that come after the policy's: what NCCL_TUNER_LEARN has learned, or tries.
	Added Source
}

// Source is a file's name, for messages, and its text. An empty name means that there is no file.
type Source struct {
	Name string
	Text []byte
}

// bundleFormat is the first line of a bundle. Then come the names and lengths of the
// files, as one line of JSON, and the files.
const bundleFormat = "nccl-tuner-go bundle 1\n"

type bundleHead struct {
	Policy, Model, Added          string
	PolicyLen, ModelLen, AddedLen int
}

// Encode returns the content of a version; DecodeBundle reads it.
func (b Bundle) Encode() []byte {
	head, err := json.Marshal(bundleHead{b.Policy.Name, b.Model.Name, b.Added.Name,
		len(b.Policy.Text), len(b.Model.Text), len(b.Added.Text)})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return slices.Concat([]byte(bundleFormat), head, []byte("\n"), b.Policy.Text, b.Model.Text, b.Added.Text)
}

var errBundleLength = errors.New("the bundle of policy files is damaged: it does not have the length it says")

// DecodeBundle reads the content of a version.
func DecodeBundle(content []byte) (b Bundle, err error) {
	rest, ok := bytes.CutPrefix(content, []byte(bundleFormat))
	line, files, found := bytes.Cut(rest, []byte("\n"))
	if !ok || !found {
		return b, errors.New("the version is no bundle of policy files; do the ranks run the same build?")
	}
	var head bundleHead
	if err := json.Unmarshal(line, &head); err != nil {
		return b, fmt.Errorf("the bundle of policy files is damaged: %w", wording.JSONError(err))
	}
	for _, n := range []int{head.PolicyLen, head.ModelLen, head.AddedLen} {
		if n < 0 || n > len(files) { // the sum of others could overflow
			return b, errBundleLength
		}
	}
	if head.PolicyLen+head.ModelLen+head.AddedLen != len(files) {
		return b, errBundleLength
	}
	b.Policy = Source{head.Policy, files[:head.PolicyLen]}
	b.Model = Source{head.Model, files[head.PolicyLen:][:head.ModelLen]}
	b.Added = Source{head.Added, files[head.PolicyLen+head.ModelLen:]}
	return b, nil
}
