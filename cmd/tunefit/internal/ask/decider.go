package ask

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// Files is what a decider's files name: communicators, sizes and calls worth
// asking about.
type Files struct {
	Policies []*policy.Policy
	model    *model.Model // nil: none
	measured nccl.Version // what the policy says that it was measured with; 0: nothing
}

// Read reads the files.
func (d Decider) Read() (f Files, err error) {
	if d.Policy != "" {
		p, err := ReadPolicy(d.Policy)
		if err != nil {
			return f, err
		}
		f.Policies = []*policy.Policy{p}
		text, err := cli.ReadDecider(d.Policy, cli.KindPolicy)
		if err != nil {
			return f, err
		}
		f.measured = nccl.ReadMeasured(text)
	}
	if d.Model != "" {
		f.model, err = ReadModel(d.Model)
	}
	return f, err
}

// ReadAll reads the files of several deciders with one model at most.
func ReadAll(by ...Decider) (all Files, err error) {
	for _, d := range by {
		f, err := d.Read()
		if err != nil {
			return all, err
		}
		all.Policies, all.model = append(all.Policies, f.Policies...), f.model
	}
	return all, nil
}

// engine puts the files together as the library does, on the machine of a topology file, else on this one. The error
// says why the machine is not known where it has to be; the engine goes without then.
func (f Files) engine(topology string) (e *policy.Engine, unknown error) {
	var rows *policy.Policy
	if len(f.Policies) > 0 {
		rows = f.Policies[0]
	}
	var here *model.Machine
	if policy.NeedsTopology(rows, f.model) {
		here, unknown = findMachine(topology)
	}
	return policy.NewEngine(rows, f.model, here), unknown
}

func findMachine(topology string) (here *model.Machine, err error) {
	if topology == "" {
		here, _, err = tuner.FindMachine(func(name string) string {
			if name == tuner.EnvFilesTrust {
				return "1" // who looks at a file does not run on it
			}
			return os.Getenv(name)
		})
		return here, err
	}
	doc, err := ncclchoice.ReadTopology(topology)
	if err != nil {
		return nil, err
	}
	return tuner.MachineOf(doc, os.Getenv)
}

// About lists what is to be known of what files decide for communicators: what the library would warn of, why the model
// abstains, and, with allGather, which of its channel counts are left to NCCL.
func (a *Asker) About(d Decider, shapes []commspec.Shape, allGather bool) (notes []string) {
	if d.Model != "" {
		notes = slices.Clone(a.Notes)
	}
	for _, s := range shapes {
		view := a.view(d, s)
		if why := view.ModelAbstention(); why != model.Decides && view.Empty() {
			notes = append(notes, fmt.Sprintf("%s: no row is for it and the model %s abstains (%s), NCCL decides", s, d.Model, why))
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

// uncheckedNotes says what a policy and a model ask for AllGather that is left to a release
// of NCCL.
func (d Decider) uncheckedNotes(view *policy.EngineView, version nccl.Version) (notes []string) {
	rows, first, model := view.UncheckedAllGathers()
	why := fmt.Sprintf("NCCL %s may use it unchecked for a group of broadcasts, and crash", version)
	if rows > 0 {
		notes = append(notes, fmt.Sprintf("%s:%d: the channel count is left to NCCL for allgather, as in %s in all: %s", d.Policy, first.Line, cli.CountOf(rows, "row"), why))
	}
	if model {
		notes = append(notes, fmt.Sprintf("%s: configurations with a channel count are not used for allgather: %s", d.Model, why))
	}
	return notes
}

// commOf is the communicator as the library sees it in a release of NCCL.
func commOf(s commspec.Shape, release nccl.Version) policy.Comm {
	return policy.Comm{Comm: s.Comm, NVLDomains: s.ToldNVLDomains(), UncheckedAllGather: release.UncheckedAllGather()}
}

// Shapes lists the communicators that the files name.
func (f Files) Shapes() []commspec.Shape { return NamedShapes(f.Policies, f.model) }

// Rules are those that can match a collective on a communicator.
func (f Files) Rules(coll nccl.Coll, s commspec.Shape) (rules []*policy.Rule) {
	for _, p := range f.Policies {
		for i := range p.Rules {
			if r := &p.Rules[i]; r.IsFor(coll, policy.Comm{Comm: s.Comm}) {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// Sizes adds to samples those at which a rule begins or ends and at which the model
// was measured.
func (f Files) Sizes(samples []uint64, coll nccl.Coll, s commspec.Shape) []uint64 {
	sizes := withEdges(samples, s.Ranks, f.Rules(coll, s))
	if f.model == nil {
		return sizes
	}
	for _, g := range f.model.File.Groups {
		if c, err := nccl.Colls.Parse(g.Coll); err != nil || c != coll || g.Ranks*s.Nodes != s.Ranks*g.Nodes {
			continue
		}
		for _, b := range g.Sizes() {
			if samples[0] <= b && b <= samples[len(samples)-1] {
				sizes = append(sizes, b)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// Sheet is the policy's text by rows; nil without a policy.
func (d Decider) Sheet() (*policy.Sheet, error) {
	if d.Policy == "" {
		return nil, nil
	}
	text, err := cli.ReadInput(d.Policy, cli.KindPolicy)
	if err != nil {
		return nil, err
	}
	return policy.ReadSheet(text)
}

// Base leaves folders out of names that a table repeats on every line.
func (d Decider) Base() Decider {
	for _, name := range []*string{&d.Policy, &d.Model} {
		if *name != "" {
			*name = filepath.Base(*name)
		}
	}
	return d
}
