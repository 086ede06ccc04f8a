package livejobs

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// asked is how often NCCL has asked one rank, by the rank's file of metrics, which is up to 15 s old.
type asked struct {
	Calls uint64    `json:"calls"`
	Last  time.Time `json:"last,omitzero"` // zero: never
}

// readAsked looks into the metrics of the first rank here that writes some. nil: there is none, or it does not count.
func (c *Communicator) readAsked() *asked {
	const most = 4 << 20
	for _, m := range c.Members {
		if m.Left || m.Life != identity.Running && m.Life != identity.Stopped {
			continue
		}
		path, ok := m.Path(m.Getenv(tuner.EnvMetrics))
		if !ok {
			continue
		}
		text, err := safefile.Read(filepath.Join(path, metrics.FileName(m.Process)), most)
		if err != nil {
			continue
		}
		calls := metrics.Values(string(text), metrics.Calls, "comm_id", c.Name)
		last := metrics.Values(string(text), metrics.LastCall, "comm_id", c.Name)
		if len(calls) == 0 || len(last) == 0 {
			continue
		}
		a := &asked{Calls: uint64(slices.Max(calls))} // of several ranks in the process
		if seconds := slices.Max(last); seconds > 0 {
			a.Last = time.UnixMilli(int64(seconds * 1000))
		}
		return a
	}
	return nil
}

func (a *asked) String() string {
	switch {
	case a == nil:
		return "-"
	case a.Last.IsZero():
		return "not yet"
	}
	return fmt.Sprintf("%d times, last %s ago", a.Calls, minutes(time.Since(a.Last)))
}

// minutes does not name seconds: with --watch, each change of the text is printed.
func minutes(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "<1m"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// quietNotes names communicators that NCCL has not asked about for a while.
func quietNotes(all []*Communicator) []string {
	var quiet []string
	for _, c := range all {
		if a := c.Asked; a != nil && !c.Ended && min(time.Since(a.Last), time.Since(c.Since)) > time.Minute {
			quiet = append(quiet, c.Name)
		}
	}
	if len(quiet) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not asked for a minute or more: %s"+todo+"nothing, if the job makes no collectives "+
		"there now. Else something else takes them: replayed CUDA graphs, symmetric kernels, kernels of a "+
		"framework's own, MSCCL; no policy reaches these", few(quiet))}
}
