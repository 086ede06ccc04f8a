// Package explain follows the way to one decision and prints it: rows, conditions, model, NCCL, and what to do about silence.
package explain

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// Path is the way to one decision.
type Path struct {
	ask.Explained
	by    ask.Decider
	sheet *policy.Sheet // the policy's text; nil without
}

// Of asks a and follows the way to its answer.
func Of(a *ask.Asker, d ask.Decider, q ask.Question) (*Path, error) {
	p := &Path{by: d}
	if d.Policy != "" {
		text, err := cli.ReadInput(d.Policy, cli.KindPolicy)
		if err != nil {
			return nil, err
		}
		if p.sheet, err = policy.ReadSheet(text); err != nil {
			return nil, err
		}
	}
	var err error
	p.Explained, err = a.Explain(d, q)
	return p, err
}

// constants are those of NCCL's that the model replaces with this release: none where the ABI has none, or where NCCL
// sets its own after that.
func (p *Path) constants() []policy.Constant {
	if p.Outcome.Release.Has(nccl.TunerConstants) && !p.Outcome.Release.Has(nccl.TunerConstantsLost) {
		return p.Engine.Constants()
	}
	return nil
}
