package compare

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Restoration is a size that became slower, and what may take that back: the configuration that ran before.
type Restoration struct {
	bench.Series
	*SizeResult
	// Config is what ran before. If NCCL chose it, it has no channels, so that NCCL chooses them again. It still has
	// them if only the number of channels changed, or if only that exact number was measured after.
	Config nccl.Config
	// Check compares the configuration with what runs there now, both measured after; nil: it was not measured.
	Check *SizeResult
	// Refused says why the size stays as it is; empty: it can be restored.
	Refused string
	// Adjacent says that the restoration before it is of the same section, is not refused either, and is of the next
	// smaller size that was compared. Same says that, in addition, both have the same configuration and equal proof.
	Adjacent, Same bool
}

// Proven reports whether measurements after the change show that the configuration is faster than what runs there now.
func (r *Restoration) Proven() bool { return r.Check != nil && r.Check.Verdict == Faster }

// Restore looks at each size that is proven to be slower by more than the threshold. The samples are those after
// the change, among which it looks for the configuration that ran before; failed are what did not run then.
func (t *Table) Restore(after, failed []bench.Sample) (all []Restoration) {
	for i := range t.Sections {
		g := &t.Sections[i]
		for j := range g.Rows {
			if r := &g.Rows[j]; r.Exceeds(t.Threshold) {
				restored := Restoration{Series: g.Series, SizeResult: r,
					Config: r.restored(after, place{g.Series, r.Bytes})}
				restored.Refused = restored.refused(failed)
				restored.Adjacent = j > 0 && len(all) > 0 && all[len(all)-1].SizeResult == &g.Rows[j-1]
				all = append(all, restored)
			}
		}
	}
	check := t.check(all, after)
	for i := range all {
		r := &all[i]
		r.judge(check)
		if r.Adjacent = r.Adjacent && r.Refused == "" && all[i-1].Refused == ""; r.Adjacent {
			last := &all[i-1]
			r.Same = r.Config == last.Config && r.Proven() == last.Proven() && (r.Check == nil) == (last.Check == nil)
		}
	}
	return all
}

// place is a size of a section.
type place struct {
	key   bench.Series
	bytes uint64
}

func placeOf(s *bench.Sample) place {
	return place{seriesOf(s), s.Bytes}
}

// forcedAt reports whether a configuration was forced at a place.
func forcedAt(samples []bench.Sample, at place, c nccl.Config) bool {
	for i := range samples {
		if k := kindOf(&samples[i]); !k.byDefault && k.Config == c && placeOf(&samples[i]) == at {
			return true
		}
	}
	return false
}

// restored is the configuration to ask for, see Restoration.Config.
func (r *SizeResult) restored(after []bench.Sample, at place) nccl.Config {
	exact, own := r.Before.Ran.Config, r.Before.Ran.Config
	own.Channels = 0
	now := r.After.Ran.Config
	now.Channels = 0
	if !r.Before.OwnChannels || own == now || forcedAt(after, at, exact) && !forcedAt(after, at, own) {
		return exact
	}
	return own
}

func (r *Restoration) refused(failed []bench.Sample) string {
	before, now := r.SizeResult.Before.Ran, r.SizeResult.After.Ran
	switch {
	case !before.Known():
		return "nothing tells what ran before (needed: logs with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING)"
	case r.Nodes == 0 || r.Ranks == 0:
		return "the number of nodes or ranks is not known"
	case now == before:
		return before.Label() + " ran before and runs now: it is slower by itself"
	case slices.ContainsFunc(failed, func(s bench.Sample) bool {
		same := s.Cell == before.Cell && (s.Channels == 0 || s.Channels == before.Channels)
		return same && s.Coll == r.Coll && s.Comm == r.Comm
	}):
		return before.Label() + " ran before and does not run any more"
	}
	return ""
}

// check compares two configurations that were both measured after the change: what runs now and what ran before.
func (t *Table) check(all []Restoration, after []bench.Sample) *Table {
	wanted := map[place]nccl.Config{}
	for _, r := range all {
		if r.Refused == "" {
			wanted[place{r.Series, r.Bytes}] = r.Config
		}
	}
	var now, restored []bench.Sample
	for i := range after {
		s := &after[i]
		config, ok := wanted[placeOf(s)]
		switch k := kindOf(s); {
		case !ok:
		case k.byDefault:
			now = append(now, *s)
		case k.Config == config:
			restored = append(restored, *s)
		}
	}
	return Two(now, restored, Options{AllVariants: true})
}

// judge takes over the check of its size, and refuses what the check does not prove.
func (r *Restoration) judge(check *Table) {
	if r.Refused != "" {
		return
	}
	for i := range check.Sections {
		g := &check.Sections[i]
		for j := range g.Rows {
			if g.Series == r.Series && g.Rows[j].Bytes == r.Bytes {
				r.Check = &g.Rows[j]
			}
		}
	}
	if c := r.Check; c != nil && c.Verdict != Faster && (c.Verdict != Unknown || c.Ratio >= 1) {
		r.Refused = fmt.Sprintf("%s ran before and was measured after, too: %.3f of the time now, not "+
			"significantly faster", r.Config.Label(), c.Ratio)
	}
}
