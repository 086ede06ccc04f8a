package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// What a recommendation advises.
const (
	UseIt       = "use it"
	UseWithCare = "use it with care"
	LeaveIt     = "leave it"
	CannotSay   = "cannot say"
)

// Recommendation is what to do about one group, for a reader who knows nothing of models.
type Recommendation struct {
	fit.Key
	Advice string `json:"advice"`
	Why    string `json:"why"`
	Spans  []Span `json:"-"` // all sizes measured, ascending
	// Sizes are those measured; the policy acts at Acts of them, at Predicted of these its time is not measured, but
	// by prediction.
	Sizes     int `json:"sizes"`
	Acts      int `json:"sizes_changed"`
	Predicted int `json:"-"`
	// Gain is the mean share of the default's time that the policy saves, over all sizes
	// at which the default was measured, and Most the largest. The winner's luck is taken
	// off. NaN: not known, as where everything was measured once.
	Gain stats.Optional `json:"gain,omitzero"`
	Most stats.Optional `json:"largest_gain,omitzero"`
	// Tried is how many sizes were left out of the fit to see what is decided there, and Slower at how many of them
	// that takes over 1 % longer than the default. The scores are of the times there.
	Tried          int       `json:"tried"`
	Slower         int       `json:"tried_slower"`
	VersusBest     fit.Score `json:"tried_vs_best,omitzero"`
	DefaultVsBest  fit.Score `json:"default_vs_best,omitzero"`
	VersusDefault  fit.Score `json:"-"`
	WorstVsDefault float64   `json:"-"`
	// NoiseAssumed says that too few repetitions were measured to know their noise.
	NoiseAssumed bool `json:"noise_assumed"`

	Of *fit.GroupReport `json:"-"`
}

// Group names what the recommendation is about.
func (v Recommendation) Group() string { return v.Key.String() }

// String is the recommendation without its group.
func (v Recommendation) String() string { return v.Advice + ": " + v.Why }

// Once says that everything was measured once: what seems to be a gain may be luck, and none is promised.
func (v Recommendation) Once() bool { return v.Of.Group.NoisePairs == 0 && !v.Of.DefaultOnly }

// WasTried says that decisions at sizes left out of the fit could be compared with NCCL's choice.
func (v Recommendation) WasTried() bool { return v.VersusDefault.Decisions > 0 }

// Span is a run of measured sizes at which the policy does the same: it acts, or leaves the
// choice to NCCL. Sizes at which the default was not measured have spans of their own.
type Span struct {
	From, To uint64 // sizes measured
	Sizes    int
	Acts     bool
	Known    bool // the default was measured
	// Saved is the share of the default's time that is saved, the mean over sizes; Least
	// and Most bound it. Where the policy does not act, they are what the fastest measured
	// would save. The winner's luck is taken off.
	Saved, Least, Most float64
	// OwnBus and PolicyBus are bus bandwidths at To, GB/s; NaN where the time is not known.
	OwnBus, PolicyBus float64
}

// Name is the first and the last size.
func (s Span) Name() string { return nccl.Range{Min: s.From, Max: s.To}.String() }

// Unsure says that there may be something to gain where NCCL's choice stays.
func (s Span) Unsure() bool { return !s.Acts && s.Most >= worthwhile }

// Bar is the width of the gain in a picture of it, in percent of half the time.
func (s Span) Bar() float64 { return math.Round(min(100, max(0, 200*s.Saved))) }

// worthwhile is the least share of time that is called a gain.
const worthwhile = 0.01

// Recommendations judges all groups of a fit. Groups with nothing but the default come last.
func Recommendations(in Input) []Recommendation {
	var all []Recommendation
	for _, r := range inOrder(in.Report) {
		all = append(all, newRecommendation(r, newDecisions(r, in.Model, in.Rows)))
	}
	return all
}

func newRecommendation(r *fit.GroupReport, decisions []decision) Recommendation {
	unknown := stats.Optional(math.NaN())
	v := Recommendation{
		Key: r.Group.Key, Of: r, Sizes: len(decisions), Gain: unknown, Most: unknown,
		Spans: spansOf(r.Group.Key, decisions), NoiseAssumed: r.Group.NoiseAssumed() && !r.DefaultOnly,
	}
	if h := r.Validation; h != nil && h.VersusDefault.Decisions > 0 { // it could be compared with NCCL's choice
		v.Tried, v.Slower, v.VersusBest, v.DefaultVsBest = h.Decided, h.Harm, h.PolicyScore, h.Default
		v.VersusDefault, v.WorstVsDefault = h.VersusDefault, h.WorstHarm
	}
	var saved []float64
	for _, d := range decisions {
		if d.row != nil {
			v.Acts++
		}
		switch {
		case !math.IsNaN(d.saved):
			saved = append(saved, d.saved)
			if d.predicted {
				v.Predicted++
			}
		case !math.IsNaN(d.byNCCL):
			saved = append(saved, 0)
		}
	}
	if len(saved) > 0 && !r.DefaultOnly && !v.Once() {
		v.Gain, v.Most = stats.Optional(stats.Mean(saved)), stats.Optional(slices.Max(saved))
	}
	v.advise(decisions)
	return v
}

// One decision in so many that takes longer than NCCL's, by no more than so much, is as likely noise as harm.
const (
	toleratedHarm  = 20
	toleratedWorst = 1.05
)

// remark is a part of a recommendation.
type remark struct {
	holds  bool
	advice string // empty: as without it
	text   string
}

// advise judges by what was measured, then by what came of it at sizes left out of the fit.
func (v *Recommendation) advise(decisions []decision) {
	var acting, leaving []Span // that act, or do not, where the default was measured
	most := 0.0                // that an acting one saves
	for _, s := range v.Spans {
		switch {
		case s.Known && s.Acts:
			acting, most = append(acting, s), max(most, s.Most)
		case s.Known:
			leaving = append(leaving, s)
		}
	}
	perhaps := unsure(decisions)
	remarks := []remark{
		{v.Of.DefaultOnly, CannotSay, v.Of.Group.OnlyDefault()},
		{len(v.Of.Group.Default) == 0 && v.Acts == 0, CannotSay, "the default was not measured"},
		{len(acting) == 0 && v.Acts > 0, CannotSay, "the default was not measured where the policy is active"},
		{len(acting)+len(leaving) == 0, CannotSay,
			"the default and other configurations were measured at different sizes"},
		{most >= worthwhile && v.Once(), UseWithCare, fit.OneRunEach + "; faster as measured at " + ranges(acting)},
		{most >= worthwhile, UseIt, "at the sizes measured, " + savings(acting)},
		{perhaps != "", LeaveIt, "nothing is faster than NCCL's default for sure"},
		{true, LeaveIt, "nothing found that is faster than NCCL's default"},
	}
	first := remarks[slices.IndexFunc(remarks, func(r remark) bool { return r.holds })]
	v.Advice, v.Why = first.advice, first.text
	if v.Advice == CannotSay {
		return
	}
	use, tried := v.Advice != LeaveIt, v.WasTried()
	harm := v.Slower*toleratedHarm > v.Tried || v.WorstVsDefault > toleratedWorst
	for _, r := range []remark{
		{perhaps != "", "", perhaps},
		{use && perhaps == "" && len(leaving) == 1, "", "no gain at " + ranges(leaving)},
		{use && perhaps == "" && len(leaving) > 1, "", "no gain elsewhere"},
		{use && v.Predicted > 0, "", fmt.Sprintf("at %d of these sizes that is a prediction", v.Predicted)},
		{use && !tried, "", "not tried on sizes left out of the fit"},
		{use && harm, UseWithCare, fmt.Sprintf("at sizes left out of the fit, %d of %d decisions took longer than "+
			"NCCL's, at worst %.2f times as long", v.Slower, v.Tried, v.WorstVsDefault)},
		{use && tried && !harm && 1-v.VersusDefault.Mean < float64(v.Gain)/2, "", // not if no gain is known
			fmt.Sprintf("on average over all sizes %s, over those left out of the fit only %s",
				share(float64(v.Gain)), share(max(0, 1-v.VersusDefault.Mean)))},
	} {
		if r.holds {
			v.Advice, v.Why = cmp.Or(r.advice, v.Advice), v.Why+"; "+r.text
		}
	}
}

// unsure says what may be gained at sizes where NCCL's choice stays; empty: nothing.
func unsure(decisions []decision) string {
	var most decision
	more := -1
	for _, d := range decisions {
		if d.row == nil && d.toSave >= worthwhile {
			if more++; d.toSave > most.toSave {
				most = d
			}
		}
	}
	text := fmt.Sprintf("perhaps %s at %s", share(most.toSave), nccl.FormatBytes(most.bytes))
	switch {
	case more < 0:
		return ""
	case more > 0:
		text += fmt.Sprintf(" and less at %d more", more)
	}
	return text + ", not for sure"
}

// mostNamed are the ranges that a line can hold.
const mostNamed = 3

// largest returns those of the spans that save most, as many as a line can hold, by size.
func largest(spans []Span) []Span {
	most := mostNamed
	named := slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Saved < worthwhile })
	if len(named) == 0 {
		named, most = slices.Clone(spans), 1
	}
	weight := func(s Span) float64 { return math.Abs(s.Saved) * float64(s.Sizes) }
	slices.SortFunc(named, func(a, b Span) int { return cmp.Compare(weight(b), weight(a)) })
	named = named[:min(most, len(named))]
	slices.SortFunc(named, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	return named
}

// ranges names the spans that save most, without how much.
func ranges(spans []Span) string {
	var parts []string
	for _, s := range largest(spans) {
		parts = append(parts, s.Name())
	}
	if n := len(spans) - len(parts); n > 0 {
		parts = append(parts, fmt.Sprintf("and in %s more", wording.Plural(n, "range")))
	}
	return strings.Join(parts, ", ")
}

// savings names the spans that save most.
func savings(spans []Span) string {
	var parts []string
	lessTime := " less time"
	for _, s := range largest(spans) {
		text := share(s.Saved) + lessTime + " at " + s.Name()
		if lessTime = ""; s.Most-s.Least >= farApart {
			text += fmt.Sprintf(" (%s to %s)", strings.TrimSuffix(share(s.Least), " %"), share(s.Most))
		}
		parts = append(parts, text)
	}
	if n := len(spans) - len(parts); n > 0 {
		parts = append(parts, fmt.Sprintf("less at %d more", n))
	}
	return strings.Join(parts, ", ")
}

// share writes a percentage: a whole number, or one decimal for small ones.
func share(v float64) string {
	if math.Abs(v) >= 0.0995 {
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	return percent(v)
}

// spansOf cuts sizes into spans. It also cuts where gains differ a lot.
func spansOf(k fit.Key, decisions []decision) (spans []Span) {
	bus := func(bytes uint64, us float64) float64 {
		return float64(bytes) / us / 1000 * k.Coll.BusFactor(float64(k.Ranks))
	}
	var run []float64
	for i, d := range decisions {
		acts, saved := d.row != nil, d.toSave
		if acts {
			saved = d.saved
		}
		known := !math.IsNaN(saved)
		last := len(spans) - 1
		if i == 0 || acts != spans[last].Acts || known != spans[last].Known || acts && apart(run[len(run)-1], saved) {
			spans, run = append(spans, Span{From: d.bytes, Acts: acts, Known: known}), nil
			last++
		}
		s := &spans[last]
		run = append(run, saved)
		s.To, s.Sizes, s.OwnBus, s.PolicyBus = d.bytes, len(run), bus(d.bytes, d.byNCCL), bus(d.bytes, d.us)
		s.Saved, s.Least, s.Most = stats.Mean(run), slices.Min(run), slices.Max(run)
	}
	return spans
}

// farApart: a span whose gains differ by so much names both ends. Neighbouring sizes whose gains differ by so much, and
// by more than a factor of three, are in different spans.
const farApart = 0.05

func apart(a, b float64) bool {
	return math.Abs(a-b) >= farApart && max(a, b) > 3*min(a, b)
}

// Tone is the colour of the advice.
func (v Recommendation) Tone() string {
	switch v.Advice {
	case UseIt:
		return "good"
	case LeaveIt:
		return "none"
	}
	return "open"
}

// Sentence is Why as a sentence. Its numbers stay on one line with their units.
func (v Recommendation) Sentence() string {
	return strings.ToUpper(v.Why[:1]) +
		strings.NewReplacer(" %", "\u00a0%", " - ", "\u00a0–\u00a0").Replace(v.Why[1:]) + "."
}

// Range is the first and the last size measured.
func (v Recommendation) Range() string {
	if len(v.Spans) == 0 {
		return ""
	}
	return nccl.Range{Min: v.Spans[0].From, Max: v.Spans[len(v.Spans)-1].To}.String()
}

// Rests says what the recommendation rests on.
func (v Recommendation) Rests() (all []string) {
	if noise := percent(v.Of.Group.Noise); v.NoiseAssumed {
		all = append(all,
			fmt.Sprintf("Assumed, not measured: that repetitions differ by %s. Too few were made to tell.", noise))
	} else if !v.Of.DefaultOnly {
		all = append(all, fmt.Sprintf("Repetitions differ by %s, as measured.", noise))
	}
	if v.WasTried() {
		all = append(all,
			fmt.Sprintf("With %s left out of the fit, it saved %s there [%s, %s], and %d of %d decisions were more "+
				"than 1 %% slower than NCCL’s.",
				model.LeftOutSizes, percent(1-v.VersusDefault.Mean), percent(1-v.VersusDefault.High),
				percent(1-v.VersusDefault.Low), v.Slower, v.Tried))
	}
	return all
}

// titleOf names the collectives and the communicators.
func titleOf(report *fit.Report) string {
	var colls, comms []string
	for _, r := range report.Groups {
		k := r.Group.Key
		coll, comm := k.Coll.String(), k.Comm.String()
		if !slices.Contains(colls, coll) {
			colls = append(colls, coll)
		}
		if !slices.Contains(comms, comm) {
			comms = append(comms, comm)
		}
	}
	if len(comms) > 6 {
		return fmt.Sprintf("%s on %d communicators", strings.Join(colls, ", "), len(comms))
	}
	return strings.Join(colls, ", ") + " on " + strings.Join(comms, ", ")
}
