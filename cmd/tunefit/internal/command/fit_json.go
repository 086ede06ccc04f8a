package command

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
)

// fitJSON is what fit --json prints: what the text says, and the files that hold the rest.
type fitJSON struct {
	Job      *worthJSON              `json:"job,omitempty"` // with --profile
	Groups   []report.Recommendation `json:"groups"`
	Doubtful []string                `json:"doubtful"`
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

// worthJSON is what decisions are worth to a job, in words and numbers.
type worthJSON struct {
	Headline string `json:"headline"`
	*fit.Worth
}

func newFitJSON(f *fitFlags, in report.Input) fitJSON {
	gaps := report.Gaps(in.Report)
	j := fitJSON{
		Groups: report.Recommendations(in), Doubtful: doubts(gaps), Measurements: in.Set.Used,
		Simulated: in.Set.Simulated, Refused: append(append([]fit.Refusal{}, in.Rejected...), in.Set.Refused...),
		ToDo: append([]report.NextStep{}, report.Steps(gaps)...), Rows: len(in.Rows), Model: f.model, Report: f.report,
	}
	if len(in.Rows) > 0 {
		j.Policy = f.csv
	}
	if in.Worth != nil {
		j.Job = &worthJSON{report.JobHeadline(in.Worth), in.Worth}
	}
	if floors := floorsOf(in); floors != (nccl.Floors{}) {
		j.Needs = floors.String()
	}
	return j
}
