package main

import (
	"fmt"
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// weighedBy says what decisions are worth to a job: the means of their ratios of times, each call of the job weighed by the
// time that it takes there. A call counts as the nearest size measured, at most an octave away.
func weighedBy(p *profile.Profile, results []fit.Evaluation) string {
	scale, total := p.Scale(), p.Total()
	if scale.Weight != profile.ByTime {
		return "no weights: the job's times are not known"
	}
	var judged, toDefault, best, toBest float64
	for _, e := range p.Entries {
		o, ok := nearest(results, e)
		if w := scale.Of(e); ok && w > 0 {
			judged, toDefault = judged+w, toDefault+w*o.Cautious/o.Default
			if !math.IsNaN(o.Best) {
				best, toBest = best+w, toBest+w*o.Cautious/o.Best
			}
		}
	}
	if judged == 0 {
		return "nothing that the job calls was measured here, the default and what is chosen"
	}
	text := fmt.Sprintf("in this job, policy / default %.3f", toDefault/judged)
	if best > 0 {
		text += fmt.Sprintf(", policy / best %.3f", toBest/best)
	}
	return text + fmt.Sprintf(", over %s of its communication time; the rest was not measured here", cli.Percent(judged/total))
}

// nearest is what came of deciding for a size next to a call's.
func nearest(results []fit.Evaluation, e profile.Entry) (found fit.Outcome, ok bool) {
	least := 1.0
	for _, r := range results {
		if r.Group.Coll != e.Coll || r.Group.Nodes != e.Nodes || r.Group.Ranks != e.Ranks || e.Bytes == 0 {
			continue
		}
		for _, o := range r.Outcomes {
			far := math.Abs(math.Log2(float64(o.Bytes) / float64(e.Bytes)))
			if !math.IsNaN(o.Cautious) && !math.IsNaN(o.Default) && (far < least || !ok && far == least) {
				found, least, ok = o, far, true
			}
		}
	}
	return found, ok
}
