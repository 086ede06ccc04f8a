package command

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
)

// fitJSON is what fit --json prints: what the text says, and the files that hold the rest.
type fitJSON struct {
	Job      *worthJSON    `json:"job,omitempty"` // with --profile
	Groups   []verdictJSON `json:"groups"`
	Doubtful []string      `json:"doubtful"`
	// variables without which a job lacks channels that are chosen
	Needs        string            `json:"job_needs,omitempty"`
	Measurements int               `json:"measurements"` // used
	Simulated    int               `json:"simulated"`    // of them
	Refused      []fit.Refusal     `json:"refused"`
	ToDo         []report.NextStep `json:"to_do"`
	Rows         int               `json:"rows"`             // of the policy
	Model        string            `json:"model,omitempty"`  // files that were asked for
	Policy       string            `json:"policy,omitempty"` // left out: no row would improve on the default for sure
	Report       string            `json:"report,omitempty"`
}

// KeyJSON is a collective on a communicator, as --json prints it.
type KeyJSON struct {
	Coll nccl.Coll `json:"collective"`
	nccl.Comm
}

// verdictJSON is a verdict without gains that are not known.
type verdictJSON struct {
	KeyJSON
	Advice string `json:"advice"`
	Why    string `json:"why"`
	Sizes  int    `json:"sizes"`
	Acts   int    `json:"sizes_changed"` // at which the policy does not leave the choice to NCCL
	// Gain is the mean share of the default's time that the policy saves, Most the largest; left out: not known.
	Gain *float64 `json:"gain,omitempty"`
	Most *float64 `json:"largest_gain,omitempty"`
	// Decided were tried at sizes left out of the fit, Harm of them are more than 1 % slower than the default.
	Decided int `json:"tried"`
	Harm    int `json:"tried_slower"`
	// Policy and Default are times there / best times; left out: not tried.
	Policy       fit.Score `json:"tried_vs_best,omitzero"`
	Default      fit.Score `json:"default_vs_best,omitzero"`
	NoiseAssumed bool      `json:"noise_assumed"`
}

func newFitJSON(f *fitFlags, in report.Input) fitJSON {
	gaps := report.Gaps(in.Report)
	j := fitJSON{
		Groups: []verdictJSON{}, Doubtful: doubts(gaps), Measurements: in.Set.Used, Simulated: in.Set.Simulated,
		Refused: append(append([]fit.Refusal{}, in.Rejected...), in.Set.Refused...),
		ToDo:    append([]report.NextStep{}, report.Steps(gaps)...), Rows: len(in.Rows), Model: f.model,
		Report: f.report,
	}
	if len(in.Rows) > 0 {
		j.Policy = f.csv
	}
	if in.Worth != nil {
		worth := newWorthJSON(in.Worth)
		j.Job = &worth
	}
	if floors := floorsOf(in); floors != (nccl.Floors{}) {
		j.Needs = floors.String()
	}
	known := func(share float64) *float64 {
		if math.IsNaN(share) {
			return nil
		}
		return &share
	}
	for _, v := range report.Recommendations(in) {
		g := verdictJSON{
			KeyJSON: KeyJSON(v.Of.Group.Key), Advice: v.Advice, Why: v.Why, Sizes: v.Sizes, Acts: v.Acts,
			Gain: known(v.Gain), Most: known(v.Most), NoiseAssumed: v.NoiseAssumed(),
		}
		if v.Unseen != nil {
			g.Decided, g.Harm = v.Unseen.Decided, v.Unseen.Harm
			g.Policy, g.Default = v.Unseen.PolicyScore, v.Unseen.Default
		}
		j.Groups = append(j.Groups, g)
	}
	return j
}
