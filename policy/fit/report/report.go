// Package report writes what a fit found as one HTML page: what the policy gains,
// how sure that is, what to do next, which configuration wins where, the curves,
// what was not measured, where the numbers come from, and the policy itself.
//
// The page is whole in itself. It asks the network for nothing, and its content
// security policy forbids it to. The same fit gives the same page, byte for byte.
package report

import (
	"cmp"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Input is what a page shows. Model is File, compiled.
type Input struct {
	Set      *fit.Set
	Rejected []fit.Refusal // while reading, before Set
	File     *model.File
	Model    *model.Model
	Report   *fit.Report
	Rows     []fit.Row  // the policy; none where nothing improves on the default for sure
	Job      string     // the name of a job's profile; empty: none
	Worth    *fit.Worth // what Rows are worth to it; nil: none
	Title    string     // empty: what was measured
	Date     time.Time  // of the page; zero: it says none
}

// mostNumbers bounds the points of curves on a page, at about 6 bytes each. Groups
// share it; there may be so many that some get fewer curves than they have, or only
// their rows in the tables.
const (
	mostNumbers  = 1_200_000
	leastNumbers = 1_500 // a group's share: a few curves are worth more than one of each group
)

// page is all that the template and the script show.
type page struct {
	Title     string
	About     []fact
	Job       *jobCard // nil: no profile was given
	Cards     []summary
	MoreCards int
	Steps     []Step
	Summaries []summary
	Terms     []Term
	Policy    string
	PolicyN   int
	Used      int
	Refused   []fit.Refusal
	RefusedN  int
	Simulated int
	Shortlist []shortlistRow
	MoreShort int
	Findings  []Finding
	More      int // findings beyond those listed
	Prov      model.Provenance
	Machine   []fact
	Measured  []fact

	data pageData
}

// pageData is what the script draws.
type pageData struct {
	Families []string     `json:"families"` // by wins: the first get the clearest colours
	Groups   []*groupData `json:"groups"`
}

const (
	mostFindings = 200
	mostCards    = 12
)

func newPage(in Input) (*page, error) {
	p := &page{
		Job: newJobCard(in), Used: in.Set.Used, Refused: append(append([]fit.Refusal(nil), in.Rejected...), in.Set.Refused...),
		Simulated: in.Set.Simulated, Prov: in.File.Provenance, Policy: policyText(in.Rows), PolicyN: len(in.Rows),
		Machine: machineFacts(in.File.Provenance.Topology), Measured: measuredFacts(&in.File.Provenance), About: aboutFacts(in), Terms: Terms,
	}
	for _, r := range p.Refused {
		p.RefusedN += r.Rows
	}
	p.Findings = Findings(in.Report)
	p.Steps = steps(in, p.Findings)
	if p.More = len(p.Findings) - mostFindings; p.More > 0 {
		p.Findings = p.Findings[:mostFindings]
	}
	p.Shortlist, p.MoreShort = shortlist(in.Report)

	models, err := byKey(in.File)
	if err != nil {
		return nil, err
	}
	budget := mostNumbers
	wins := map[string]int{}
	rows := rowsByKey(in.Rows)
	groups := inOrder(in.Report)
	for i, r := range groups {
		d := newDecisions(r, in.Model, rows[r.Group.Key])
		explain(d, r.Group.Key, in.Model)
		share := min(budget, max(leastNumbers, budget/(len(groups)-i)))
		g, used, err := newGroupData(r, models[r.Group.Key], d, rows[r.Group.Key], share)
		if err != nil {
			return nil, err
		}
		budget -= used
		p.data.Groups = append(p.data.Groups, g)
		sum := newSummary(r, d)
		sum.Index = i
		p.Summaries = append(p.Summaries, sum)
		for _, s := range d {
			if s.winner != nil {
				wins[s.winner.FamilyKey.String()]++
			}
		}
	}
	p.data.Families = familiesByWins(in.File, wins)
	p.Cards = p.Summaries[:min(mostCards, len(p.Summaries))]
	p.MoreCards = len(p.Summaries) - len(p.Cards)
	p.Title = cmp.Or(in.Title, titleOf(in.Report))
	return p, nil
}

// inOrder puts groups of which nothing but the default was measured last: there is
// nothing to see.
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

func rowsByKey(all []fit.Row) map[fit.Key][]fit.Row {
	rows := map[fit.Key][]fit.Row{}
	for _, r := range all {
		rows[r.Key] = append(rows[r.Key], r)
	}
	return rows
}
