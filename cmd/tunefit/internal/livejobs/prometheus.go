package livejobs

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/redact"
)

// writePrometheus prints communicators as status --prometheus does.
func writePrometheus(w io.Writer, all []communicator) error {
	page := metrics.NewPage(metrics.Status)
	for i := range all {
		addPrometheus(page, &all[i])
	}
	_, err := w.Write(page.Text())
	return err
}

func addPrometheus(page *metrics.Page, c *communicator) {
	of := []string{redact.URL(c.place.Name), c.name(), strconv.Itoa(c.Ranks)}
	add := func(m metrics.Metric, value float64, labels ...string) {
		page.Add(m, value, append(slices.Clone(of), labels...)...)
	}
	if c.version.Meaning != "" {
		policy, model := c.paths()
		add(metrics.StatusVersion, 1, fmt.Sprintf("%.12s", c.version.Meaning), policy, model)
	}
	if !c.since.IsZero() {
		add(metrics.StatusSince, float64(c.since.Unix()))
	}
	states := map[string]int{"missing": c.Ranks - len(c.members)}
	for _, m := range c.members {
		if m.left {
			states["left"]++
		} else {
			states[m.state.String()]++
		}
	}
	for _, state := range []string{"running", "stopped", "dead", "unknown", "left", "missing"} {
		add(metrics.StatusRanks, float64(states[state]), state)
	}
	pending, missing := 0, 0
	if c.pending != nil && !c.over() && c.asked() {
		pending, missing = 1, len(c.missing())
	}
	add(metrics.StatusPending, float64(pending))
	add(metrics.StatusMissing, float64(missing))
	frozen := 0
	if c.frozen != nil {
		frozen = 1
	}
	add(metrics.StatusFrozen, float64(frozen))
	committed, refused := 0, map[agree.Reason]int{}
	for _, change := range c.Changes {
		switch d := change.Decision; {
		case d == nil:
		case d.Commit:
			committed++
		case slices.Contains(agree.Reasons, d.Abort):
			refused[d.Abort]++
		default: // anybody may have made it
			refused["other"]++
		}
	}
	add(metrics.StatusChanges, float64(committed), "committed", "")
	for _, why := range append(slices.Clone(agree.Reasons), "other") {
		add(metrics.StatusChanges, float64(refused[why]), "refused", string(why))
	}
	add(metrics.StatusFaults, float64(len(c.Faults)))
}
