package livejobs

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// writePrometheus prints communicators as status --prometheus does. unseen folders could not be looked at.
func writePrometheus(w io.Writer, all []*Communicator, unseen int) error {
	page := metrics.NewPage(metrics.Status)
	page.Add(metrics.StatusUnseen, float64(unseen))
	for _, c := range all {
		addPrometheus(page, c)
	}
	_, err := w.Write(page.Text())
	return err
}

func addPrometheus(page *metrics.Page, c *Communicator) {
	of := []string{wording.HideSecrets(c.Rendezvous), c.Name, strconv.Itoa(c.Ranks)}
	add := func(m metrics.Metric, value float64, labels ...string) {
		page.Add(m, value, append(slices.Clone(of), labels...)...)
	}
	if c.Version != "" {
		add(metrics.StatusVersion, 1, fmt.Sprintf("%.12s", c.Version), c.Policy, c.Model)
	}
	if !c.Since.IsZero() {
		add(metrics.StatusSince, float64(c.Since.Unix()))
	}
	states := map[string]int{"missing": c.Ranks - len(c.Members)}
	for _, m := range c.Members {
		if m.Left {
			states["left"]++
		} else {
			states[string(m.Life)]++
		}
	}
	for _, state := range []string{"running", "stopped", "dead", "unknown", "left", "missing"} {
		add(metrics.StatusRanks, float64(states[state]), state)
	}
	missing := 0
	if c.changes() {
		missing = len(c.pending.Missing)
	}
	add(metrics.StatusPending, oneIf(c.changes()))
	add(metrics.StatusMissing, float64(missing))
	add(metrics.StatusFrozen, oneIf(c.Frozen))
	switched, others := 0, map[agree.Reason]int{}
	for _, x := range c.Changes {
		switch {
		case x.State == committed:
			switched++
		case x.State == refused && slices.Contains(agree.Reasons, x.Decision.Abort):
			others[x.Decision.Abort]++
		case x.State == refused: // a record of anybody may give any reason
			others["other"]++
		}
	}
	add(metrics.StatusChanges, float64(switched), "committed", "")
	for _, why := range append(slices.Clone(agree.Reasons), "other") {
		add(metrics.StatusChanges, float64(others[why]), "refused", string(why))
	}
	if c.isToCompare() {
		add(metrics.StatusComparing, oneIf(c.comparing()))
	}
	add(metrics.StatusFaults, float64(len(c.Faults)))
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
