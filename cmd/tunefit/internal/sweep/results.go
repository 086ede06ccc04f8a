package sweep

import (
	"bytes"
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/openregular"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// read is what a run measured, nil: nothing, and its log.
func (s *Sweep) read(r *Run) (found *bench.Result, text []byte) {
	key := s.journal.start(r).Key
	text, err := openregular.Read(filepath.Join(s.Dir, r.Log), mostRead)
	if err != nil {
		return nil, nil
	}
	s.readOffers(key, text)
	found, err = bench.Read(bytes.NewReader(text), r.Log, bench.Options{Coll: &key.Coll, Comm: key.Comm})
	if err != nil {
		return nil, text
	}
	found.Samples = slices.DeleteFunc(found.Samples, func(m bench.Sample) bool {
		return m.Coll != key.Coll || m.Nodes != key.Nodes || m.Ranks != key.Ranks
	})
	return found, text
}

// readOffers takes what our library says that NCCL has: "TUNER/Go: NCCL offers for allreduce: ring/ll, ring/simple".
func (s *Sweep) readOffers(key fit.Key, log []byte) {
	for {
		_, said, ok := bytes.Cut(log, []byte("TUNER/Go: NCCL offers for "))
		if !ok {
			return
		}
		said, log, _ = bytes.Cut(said, []byte("\n"))
		if s.offered[key] == nil {
			s.offered[key] = map[nccl.Cell]bool{}
		}
		_, names, _ := strings.Cut(strings.TrimSpace(string(said)), ": ")
		for name := range strings.SplitSeq(names, ", ") {
			algo, proto, _ := strings.Cut(name, "/")
			if f, err := perfrun.ParseFamily(algo, proto); err == nil {
				s.offered[key][f] = true
			}
		}
	}
}

// isOffered reports whether NCCL has an algorithm and protocol, as far as any run tells.
func (s *Sweep) isOffered(key fit.Key, f nccl.Cell) bool {
	return s.offered[key] == nil || s.offered[key][f]
}

// group is the measurements of a subject, nil: none, and what NCCL refused.
func (s *Sweep) group(key fit.Key) (*fit.Group, []nccl.Config) {
	pool, trusted := fit.NewPool(), s.trusted(key)
	for _, i := range s.journal.of(key).runs {
		r := s.results[i]
		if r == nil || s.kind(i) == Prove {
			continue
		}
		pool.Begin(r.File)
		for k := range r.Samples {
			if m := &r.Samples[k]; trusted(m) {
				pool.Add(m)
			}
		}
		for k := range r.Failed {
			pool.Fail(&r.Failed[k])
		}
	}
	set := pool.Set()
	return set.Of(key), set.Failed[key]
}

// kind is what a run was for.
func (s *Sweep) kind(run int) Kind { return s.journal.batches[s.journal.runs[run].Batch].Kind }

// Samples are all that was measured to learn from, and what failed.
func (s *Sweep) Samples() (samples, failed []bench.Sample) {
	trusted := map[fit.Key]func(*bench.Sample) bool{}
	for key := range s.journal.subjects {
		trusted[key] = s.trusted(key)
	}
	for i, r := range s.results {
		if r == nil || s.kind(i) == Prove {
			continue
		}
		key := s.journal.start(&s.journal.runs[i]).Key
		for k := range r.Samples {
			if trusted[key](&r.Samples[k]) {
				samples = append(samples, r.Samples[k])
			}
		}
		for _, m := range r.Failed {
			if m.Bytes == 0 {
				failed = append(failed, m)
			}
		}
	}
	for _, key := range s.Keys { // logs tell less of what was asked for than the journal
		failed = append(failed, s.unmet(key)...)
	}
	return samples, failed
}

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
