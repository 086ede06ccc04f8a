package policyfile

import (
	"bytes"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// SameMeaning reports whether the files of two versions mean the same on this machine, with the variables that getenv
// knows. On another one a model may mean something else.
func SameMeaning(a, b Bundle, getenv func(string) string) bool {
	if bytes.Equal(a.Policy.Text, b.Policy.Text) && bytes.Equal(a.Model.Text, b.Model.Text) {
		return true
	}
	l := NewLoader(getenv, new(safefile.Timeouts), func() {})
	var meanings [2]string
	for i, bundle := range []Bundle{a, b} {
		bundle.Added = Source{}
		content := bundle.Encode()
		v, err := l.Decode(content, agree.DigestOf(content), telemetry.Log{})
		if err != nil {
			return false
		}
		meanings[i] = v.Meaning()
	}
	return meanings[0] == meanings[1]
}
