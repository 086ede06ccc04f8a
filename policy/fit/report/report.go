// Package report writes what a fit found as one HTML page: what the policy gains,
// how sure that is, what to do next, which configuration wins where, the curves,
// what was not measured, where the numbers come from, and the policy itself.
//
// The page is whole in itself. It asks the network for nothing, and its content
// security policy forbids it to. The same fit gives the same page, byte for byte.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Input is what a page shows. Model is File, compiled.
type Input struct {
	Set      *fit.Set
	Settings *fit.Comparison // of which Set is the one that is chosen; nil: nothing was compared
	Rejected []fit.Refusal   // while reading, before Set
	File     *model.File
	Model    *model.Model
	Report   *fit.Report
	Rows     []fit.Row  // the policy; none where nothing improves on the default for sure
	Job      string     // the name of a job's profile; empty: none
	Worth    *fit.Worth // what Rows are worth to it; nil: none
	Apart    []string   // where graphs and eager runs choose differently
	// Bandwidths are those of the largest sizes, beside what links allow; none: the machine is not known
	Bandwidths []string
	Proven     string // the file of a policy that was compared with the default; empty: none
	Proof      string // what came of that
}

// page is all that the template and the script show.
type page struct {
	Input
	Title           string
	About           []fact
	Cards           []Recommendation
	MoreCards       int
	Steps           []NextStep
	Recommendations []Recommendation
	Policy          string
	AnyTuner        bool // Policy has the ten columns that other tuners know
	Refused         []fit.Refusal
	NotUsed         int
	Gaps            []Gap
	CarriedOver     []string    // rows for more nodes than were measured
	Scales          []scaleLine // where numbers of nodes chose differently

	data pageData
}

// pageData is what the script draws.
type pageData struct {
	Families []string     `json:"families"` // those of the best curves first: they get the clearest colours
	Groups   []*groupData `json:"groups"`
}

const mostCards = 12

func newPage(in Input) *page {
	p := &page{
		Input: in, About: aboutFacts(in), Policy: policyText(in),
		Refused: slices.Concat(in.Rejected, in.Set.Refused), Title: titleOf(in.Report),
		AnyTuner:    in.File.Provenance.Releases() == nccl.AnyRelease,
		CarriedOver: CarriedOver(in.Rows), Scales: scaleLines(in.Set),
	}
	for _, r := range p.Refused {
		p.NotUsed += r.Rows
	}
	p.Gaps = Gaps(in.Report)
	p.Steps = steps(in, p.Gaps)
	for _, r := range inOrder(in.Report) {
		d := newDecisions(r, in.Model, in.Rows)
		g := newGroupData(r, in, d)
		p.data.Groups = append(p.data.Groups, g)
		p.Recommendations = append(p.Recommendations, newRecommendation(r, d))
		for _, c := range g.Curves {
			if c.Family != "" && !slices.Contains(p.data.Families, c.Family) {
				p.data.Families = append(p.data.Families, c.Family)
			}
		}
	}
	p.Cards = p.Recommendations[:min(mostCards, len(p.Recommendations))]
	p.MoreCards = len(p.Recommendations) - len(p.Cards)
	return p
}

// inOrder puts groups with nothing but the default last: there is nothing to see.
func inOrder(report *fit.Report) []*fit.GroupReport {
	var chosen, others []*fit.GroupReport
	for i := range report.Groups {
		if r := &report.Groups[i]; r.DefaultOnly {
			others = append(others, r)
		} else {
			chosen = append(chosen, r)
		}
	}
	return append(chosen, others...)
}

// fact is a line of a table of two columns.
type fact struct{ Name, Value string }

// aboutFacts are what a reader asks first.
func aboutFacts(in Input) []fact {
	p := &in.File.Provenance
	var gpus, begun []string
	for _, m := range p.Machines {
		if m.GPU != "" && !slices.Contains(gpus, m.GPU) {
			gpus = append(gpus, m.GPU)
		}
		if m.Begun != "" && !slices.Contains(begun, m.Begun) {
			begun = append(begun, m.Begun)
		}
	}
	slices.Sort(begun)
	when := "not known"
	if n := len(begun); n > 1 {
		when = begun[0] + " to " + begun[n-1]
	} else if n == 1 {
		when = begun[0]
	}
	var under []string
	for _, c := range in.Set.Under() {
		under = append(under, c.String())
	}
	facts := []fact{
		{"GPU", cmp.Or(strings.Join(gpus, ", "), "not known")},
		{"NCCL", cmp.Or(p.NCCL, "not known (--made-with VERSION)")},
		{"measured under", cmp.Or(strings.Join(under, "; "), "not known")}, {"measured", when},
		{"measurements", fmt.Sprint(in.Set.Used)},
	}
	if p.Topology != nil {
		facts = append(facts, fact{"machine", p.Topology.Summary.String()})
	}
	if len(in.Bandwidths) > 0 {
		facts = append(facts, fact{"bus bandwidth", strings.Join(in.Bandwidths, "; ")})
	}
	if len(in.Apart) > 0 {
		facts = append(facts, fact{"graphs and eager runs choose differently", strings.Join(in.Apart, "; ")})
	}
	return facts
}
