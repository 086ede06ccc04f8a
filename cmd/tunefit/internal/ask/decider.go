package ask

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Decider is what decides: a policy file, a model, or both. "" is none.
type Decider struct{ Policy, Model string }

// ReadPolicy reads a policy. All problems of the file come back in the error.
func ReadPolicy(in *cli.Inputs, file string) (p *policy.Policy, text []byte, err error) {
	if text, err = in.Decider(file, cli.KindPolicy); err != nil {
		return nil, nil, err
	}
	if p, err = policy.ReadCSV(file, text); err != nil {
		return nil, nil, fmt.Errorf("%s is not a policy:\n%w", file, err)
	}
	if len(p.Rules) == 0 {
		return nil, nil, fmt.Errorf("%s has no rows", file)
	}
	return p, text, nil
}

// ReadModel is ReadPolicy for a model.
func ReadModel(in *cli.Inputs, file string) (m *model.Model, text []byte, err error) {
	if text, err = in.Decider(file, cli.KindModel); err != nil {
		return nil, nil, err
	}
	if m, err = model.Read(file, text); err != nil {
		return nil, nil, fmt.Errorf("%s is not a model:\n%w", file, err)
	}
	return m, text, nil
}

// About returns notes on a decider: what the library would warn of, and for each communicator why the model abstains.
// With allGather it adds which channel counts of AllGather are left to NCCL.
func (a *Asker) About(d Decider, comms []policy.Comm, allGather bool) (notes []string) {
	var views []*policy.EngineView
	for _, c := range comms {
		views = append(views, a.view(d, c))
	}
	notes = slices.Clone(a.Notes) // a view may have added to them
	for i, c := range comms {
		view := views[i]
		if why := view.ModelAbstains(); why != "" && view.Empty() {
			notes = append(notes, fmt.Sprintf("%s: no row is for it and the model %s abstains (%s), NCCL decides", c,
				d.Model, why))
		}
		if !allGather {
			continue
		}
		for _, note := range d.uncheckedNotes(view, a.Costs.NCCL) {
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// uncheckedNotes says which channel counts for AllGather are left to a release of NCCL.
func (d Decider) uncheckedNotes(view *policy.EngineView, version nccl.Version) (notes []string) {
	rows, first, model := view.UncheckedAllGathers()
	why := fmt.Sprintf("NCCL %s may use it unchecked for a group of broadcasts, and crash", version)
	if rows > 0 {
		notes = append(notes,
			fmt.Sprintf("%s:%d: the channel count is left to NCCL for allgather, as in %s in all: %s", d.Policy,
				first.Line, wording.Plural(rows, "row"), why))
	}
	if model {
		notes = append(notes, fmt.Sprintf("%s: configurations with a channel count are not used for allgather: %s",
			d.Model, why))
	}
	return notes
}
