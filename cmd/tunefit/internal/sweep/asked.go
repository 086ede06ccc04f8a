package sweep

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// asked is what the runs of a subject were to measure, whatever came of it. A run that was stopped asked for nothing:
// its start is gone on with.
func (s *Sweep) asked(key fit.Key) map[fit.Ask]bool {
	asked := map[fit.Ask]bool{}
	for _, i := range s.journal.of(key).runs {
		r := &s.journal.runs[i]
		if r.Outcome == Running || r.Outcome == Stopped {
			continue
		}
		for _, row := range s.journal.start(r).Rows {
			for _, b := range r.Sizes {
				if row.Bytes.Contains(b) {
					asked[fit.Ask{Config: row.Config, Bytes: b}] = true
				}
			}
		}
	}
	return asked
}

// unmet is what of that was not measured as it was asked for, each as a sample without a time.
func (s *Sweep) unmet(key fit.Key) (all []bench.Sample) {
	asked := s.asked(key)
	for _, i := range s.journal.of(key).runs {
		if found := s.results[i]; found != nil {
			for k := range found.Samples {
				m := &found.Samples[k]
				c := m.Config
				if m.Selection == bench.SelectionOwnChannels {
					c.Channels = 0
				}
				delete(asked, fit.Ask{Config: c, Bytes: m.Bytes})
			}
		}
	}
	for a := range maps.Keys(asked) {
		all = append(all, bench.Sample{
			Call: nccl.Call{Coll: key.Coll, Bytes: a.Bytes}, Comm: key.Comm, Config: a.Config, Selection: bench.SelectionForced, Source: "journal.jsonl",
		})
	}
	slices.SortFunc(all, func(a, b bench.Sample) int {
		return cmp.Or(cmp.Compare(a.Algo, b.Algo), cmp.Compare(a.Proto, b.Proto),
			cmp.Compare(a.Channels, b.Channels), cmp.Compare(a.Bytes, b.Bytes))
	})
	return all
}
