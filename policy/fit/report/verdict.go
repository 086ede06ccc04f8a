package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// What a verdict advises.
const (
	UseIt       = "use it"
	UseWithCare = "use it with care"
	LeaveIt     = "leave it"
	CannotSay   = "cannot say"
)

// Verdict is what to do about one group, for who decides and knows nothing of models.
type Verdict struct {
	Group  string
	Advice string
	Why    string
	Spans  []Span // all sizes measured, ascending
	Acts   int    // sizes at which the policy acts
	// Gain is the mean share of the default's time that the policy saves, over all sizes
	// at which the default was measured, and Most the largest. The winner's luck is taken
	// off. NaN: not known.
	Gain, Most float64
	// Trials are on data kept from the fit; Decided and Harm are their sums.
	Trials        []Trial
	Decided, Harm int
	// Predicted counts the sizes at which the gain is not measured, but by prediction.
	Predicted int
	// NoiseAssumed says that too few repetitions were measured to know their noise.
	NoiseAssumed bool
}

// Trial is what came of decisions with some data left out of the fit: how many there
// were, and how many were more than 1 % slower than the default.
type Trial struct {
	LeftOut       string
	Decided, Harm int
}

// String is the verdict without its group.
func (v Verdict) String() string { return v.Advice + ": " + v.Why }

// Span is a run of measured sizes at which the policy does the same: act, leave the
// choice to NCCL, or one of these with nobody knowing what NCCL would do.
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
func (s Span) Name() string {
	if s.From == s.To {
		return sizeName(s.From)
	}
	return sizeName(s.From) + " - " + sizeName(s.To)
}

// Unsure says that there may be something to gain where NCCL's own choice stays.
func (s Span) Unsure() bool { return !s.Acts && s.Most >= worthwhile }

// Bar is the width of the gain in a picture of it, in percent of half the time.
func (s Span) Bar() float64 { return math.Round(min(100, max(0, 200*s.Saved))) }

// worthwhile is the least share of time that is called a gain.
const worthwhile = 0.01

// Verdicts judges all groups of a fit, those first of which more than the default was
// measured.
func Verdicts(in Input) []Verdict {
	rows := rowsByKey(in.Rows)
	var all []Verdict
	for _, r := range inOrder(in.Report) {
		all = append(all, newVerdict(r, newDecisions(r, in.Model, rows[r.Group.Key])))
	}
	return all
}

func newVerdict(r *fit.GroupReport, decisions []decision) Verdict {
	v := Verdict{Group: r.Group.Key.String(), Gain: math.NaN(), Most: math.NaN(), NoiseAssumed: r.Group.NoisePairs == 0 && !r.DefaultOnly, Spans: spansOf(r.Group.Key, decisions)}
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
	if len(saved) > 0 && !r.DefaultOnly {
		v.Gain, v.Most = mean(saved), slices.Max(saved)
	}
	worstHarm, unseen := 0.0, math.NaN()
	for _, h := range r.Verdicts {
		if h.LeftOut == fit.LeftOutNodes {
			continue
		}
		if h.LeftOut == fit.LeftOutSizes && h.VersusDefault.Decisions > 0 {
			unseen = 1 - h.VersusDefault.Mean
		}
		v.Trials = append(v.Trials, Trial{h.LeftOut, h.Decided, h.Harm})
		v.Decided, v.Harm, worstHarm = v.Decided+h.Decided, v.Harm+h.Harm, max(worstHarm, h.WorstHarm)
	}
	const nothingUnseen = "; at sizes left out of the fit, choosing by the others saved nothing"
	if v.advise(r); v.Advice != UseIt {
		if v.Advice == LeaveIt && mostSaved(v.spans(false)) >= worthwhile && unseen < fit.LeastUnseen {
			v.Why += nothingUnseen
		}
		return v
	}
	switch {
	case unseen < fit.LeastUnseen: // its rows are where a verification was won
		v.Advice = UseWithCare
		v.Why += nothingUnseen
	case v.Harm*toleratedHarm > v.Decided || worstHarm > toleratedWorst:
		v.Advice = UseWithCare
		v.Why += fmt.Sprintf("; tried on data kept from the fit, %d of %d decisions took longer than NCCL's, at worst %.2f times as long", v.Harm, v.Decided, worstHarm)
	case len(v.Trials) == 0:
		v.Why += "; not tried on data kept from the fit"
	case unseen < v.Gain/2: // false for NaN
		v.Why += fmt.Sprintf("; on average over all sizes %s, over those left out of the fit only %s", share(v.Gain), share(max(0, unseen)))
	}
	return v
}

// One decision in so many, by so much, that takes longer than NCCL's is as likely noise as harm.
const (
	toleratedHarm  = 20
	toleratedWorst = 1.05
)

// advise judges by what was measured.
func (v *Verdict) advise(r *fit.GroupReport) {
	acting, own := v.spans(true), v.spans(false)
	switch {
	case r.DefaultOnly:
		v.Advice, v.Why = CannotSay, "nothing but the default was measured"
	case len(r.Group.Default) == 0 && v.Acts == 0:
		v.Advice, v.Why = CannotSay, "the default was not measured"
	case len(acting) == 0 && v.Acts > 0:
		v.Advice, v.Why = CannotSay, "the default was not measured where the policy acts"
	case len(acting) == 0 && len(own) == 0:
		v.Advice, v.Why = CannotSay, "the default and other configurations were measured at different sizes"
	case len(acting) == 0 && mostSaved(own) >= worthwhile:
		v.Advice, v.Why = LeaveIt, fmt.Sprintf("nothing is faster than NCCL's own choice for sure, the best of what was measured perhaps by %s", share(mostSaved(own)))
	case mostSaved(acting) < worthwhile:
		v.Advice, v.Why = LeaveIt, "NCCL's own choice is as good"
	default:
		v.Advice, v.Why = UseIt, savings(acting)
		if len(own) > 0 {
			v.Why += "; " + left(own)
		}
		if v.Predicted > 0 {
			v.Why += fmt.Sprintf("; at %d of these sizes that is a prediction", v.Predicted)
		}
	}
}

// spans are those that act, or do not, where the default was measured.
func (v *Verdict) spans(acts bool) (spans []Span) {
	for _, s := range v.Spans {
		if s.Known && s.Acts == acts {
			spans = append(spans, s)
		}
	}
	return spans
}

func mostSaved(spans []Span) float64 {
	most := math.Inf(-1)
	for _, s := range spans {
		most = max(most, s.Most)
	}
	return most
}

// mostNamed are the ranges that a line can hold.
const mostNamed = 3

// savings names the ranges that save most.
func savings(spans []Span) string {
	weight := func(s Span) float64 { return math.Abs(s.Saved) * float64(s.Sizes) }
	byWeight := slices.SortedFunc(slices.Values(spans), func(a, b Span) int { return cmp.Compare(weight(b), weight(a)) })
	worth := slices.DeleteFunc(slices.Clone(byWeight), func(s Span) bool { return s.Saved < worthwhile })
	if len(worth) == 0 {
		worth = byWeight[:1]
	}
	named := worth[:min(mostNamed, len(worth))]
	var parts []string
	for _, s := range spans {
		if !slices.Contains(named, s) {
			continue
		}
		text := share(s.Saved)
		if len(parts) == 0 {
			text += " less time"
		}
		text += " at " + s.Name()
		if s.Most-s.Least >= farApart {
			text += fmt.Sprintf(" (%s to %s)", strings.TrimSuffix(share(s.Least), " %"), share(s.Most))
		}
		parts = append(parts, text)
	}
	if n := len(spans) - len(named); n > 0 {
		parts = append(parts, fmt.Sprintf("less at %d more", n))
	}
	return strings.Join(parts, ", ")
}

// left says what there is to gain where NCCL's own choice stays.
func left(own []Span) string {
	where := "elsewhere"
	if len(own) == 1 {
		where = "at " + own[0].Name()
	}
	if most := mostSaved(own); most >= worthwhile {
		return fmt.Sprintf("perhaps %s %s, not for sure", share(most), where)
	}
	return "nothing to gain " + where
}

// share is percent as people say it: whole numbers, but of small ones.
func share(v float64) string {
	if math.Abs(v) >= 0.0995 {
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	return percent(v)
}

// spansOf cuts sizes into spans, and these where gains are not alike.
func spansOf(k fit.Key, decisions []decision) (spans []Span) {
	saved := func(d decision) float64 {
		if d.row != nil {
			return d.saved
		}
		return d.toSave
	}
	bus := func(bytes uint64, us float64) float64 {
		return float64(bytes) / us / 1000 * k.Coll.BusFactor(float64(k.Ranks))
	}
	for len(decisions) > 0 {
		first := decisions[0]
		acts, known := first.row != nil, !math.IsNaN(saved(first))
		var run []float64
		for _, d := range decisions {
			if (d.row != nil) != acts || math.IsNaN(saved(d)) == known {
				break
			}
			run = append(run, saved(d))
		}
		if acts && known {
			run = run[:alike(run)]
		}
		last := decisions[len(run)-1]
		spans = append(spans, Span{
			From: first.bytes, To: last.bytes, Sizes: len(run), Acts: acts, Known: known,
			Saved: mean(run), Least: slices.Min(run), Most: slices.Max(run),
			OwnBus: bus(last.bytes, last.byNCCL), PolicyBus: bus(last.bytes, last.us),
		})
		decisions = decisions[len(run):]
	}
	return spans
}

// Gains are told apart where two levels explain that much of their variance, and are that
// far from one another.
const (
	explained = 0.8
	farApart  = 0.05
)

// alike is how many of the first gains one range can stand for: up to the cut into two
// levels that leaves least variance, if that tells them apart.
func alike(gains []float64) int {
	if slices.Max(gains)-slices.Min(gains) < farApart {
		return len(gains)
	}
	m, n, all, sum := mean(gains), float64(len(gains)), 0.0, 0.0
	for _, v := range gains {
		all += (v - m) * (v - m)
	}
	most, cut := explained*all, len(gains)
	for i, v := range gains[:len(gains)-1] {
		sum += v - m
		if k := float64(i + 1); sum*sum*n/(k*(n-k)) > most { // what two levels explain of all
			most, cut = sum*sum*n/(k*(n-k)), i+1
		}
	}
	if cut < len(gains) {
		return alike(gains[:cut])
	}
	return cut
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}
