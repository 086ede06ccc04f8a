package sweep

// What runs have measured: a run's log becomes samples, of which those stay that the run was to measure. From them a
// fit plans the next runs, and at the end the whole sweep is fitted.

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// read finds out what a run measured, and returns its log.
func (s *Sweep) read(r *Run) (text []byte) {
	s = s.under(r.of.Setting)
	key := r.of.Key
	text, err := safefile.Read(filepath.Join(s.Dir, r.Log), mostRead)
	if err != nil {
		return nil
	}
	r.direct = bytes.Contains(text, []byte("ncclDdaIpcCommInit: scratch"))
	found, err := bench.Read(bytes.NewReader(text), r.Log, bench.Options{Coll: &key.Coll, Comm: key.Comm})
	if err != nil {
		return text
	}
	for _, m := range found.Samples {
		if m.Comm != key.Comm && m.Ranks == key.Ranks {
			r.took = m.Comm
		}
	}
	found.Samples = slices.DeleteFunc(found.Samples, func(m bench.Sample) bool {
		return m.Coll != key.Coll || m.Comm != key.Comm
	})
	for _, m := range found.NotOffered {
		key := fit.Key{Coll: m.Coll, Comm: m.Comm}
		if s.notOffered[key] == nil {
			s.notOffered[key] = map[nccl.Cell]bool{}
		}
		s.notOffered[key][m.Cell] = true
	}
	r.found = found
	s.keepAsked(r)
	r.refused = r.untaken(text)
	if r.unlike = s.unlike(r); r.unlike != "" || r.refused != "" {
		r.found = nil
	}
	return text
}

// keepAsked drops the times of a run that it was not to measure. NCCL lowers a channel count to what the machine has,
// so a larger one is noted as that.
func (s *Sweep) keepAsked(r *Run) {
	key, passes := r.of.Key, r.of.Passes
	if r.found.MostChannels != (bench.MostChannels{}) {
		s.channels[key] = r.found.MostChannels
	}
	r.instead = map[nccl.Config]bool{}
	r.found.Samples = slices.DeleteFunc(r.found.Samples, func(m bench.Sample) bool {
		k := max(0, m.Pass-1)
		if k >= len(passes) || r.kind == Prove {
			return k >= len(passes)
		}
		asked := passes[k].At(m.Bytes)
		if asked == fit.ByDefault {
			isLoaded := r.of.Tuned() && nccl.IsRCCL(setupOf(&m).NCCL)
			if isLoaded && !m.InPlace {
				r.loaded = append(r.loaded, m)
			}
			return isLoaded
		}
		if m.Cell.Known() && m.Cell != asked.Cell {
			r.instead[asked] = true
		}
		return r.instead[asked]
	})
	for _, all := range [][]bench.Sample{r.found.Samples, r.found.Failed} {
		for i := range all {
			all[i].Config = s.channels[key].Cap(all[i].Config)
		}
	}
}

// replaced names the configurations in whose place something else ran.
func (r *Run) replaced() string {
	var names []string
	for c := range r.instead {
		names = append(names, c.String())
	}
	slices.Sort(names)
	return cli.Few(names, 8, ", ")
}

func setupOf(m *bench.Sample) bench.Setup {
	if m.Setup == nil {
		return bench.Setup{}
	}
	return *m.Setup
}

// conditions are what the times of a run were measured under; nil: it has none.
func (r *Run) conditions() *bench.Conditions {
	if r.found == nil || len(r.found.Samples) == 0 {
		return nil
	}
	under := r.found.Samples[0].Series().Conditions
	return &under
}

// unlike says that a run was measured under other conditions than the subject's runs before it; empty: it was not.
func (s *Sweep) unlike(r *Run) string {
	is := r.conditions()
	for _, before := range s.runs(r.of.Key) {
		if was := before.conditions(); before.Outcome == Measured && was != nil && is != nil && *was != *is {
			return fmt.Sprintf("this run was measured under %s, and those before under %s: times under different "+
				"options of nccl-tests or variables of NCCL are never compared", is, was)
		}
	}
	return ""
}

// set is what was measured of a subject, what NCCL refused, and what was asked for.
func (s *Sweep) set(key fit.Key) *fit.Set {
	if s.From != nil {
		return s.From
	}
	set := s.setOf(func(r *Run) bool { return r.of.Key == key })
	set.Asked = map[fit.Key]map[fit.Request]bool{key: s.asked(key)} // the journal knows all of it, logs do not
	return set
}

// setOf is what some runs measured under the setting.
func (s *Sweep) setOf(of func(*Run) bool) *fit.Set {
	pool, trusted := fit.NewPool(), map[fit.Key]func(*bench.Sample) bool{}
	for _, r := range s.journal.runs {
		if r.of.Setting != s.setting || !r.isToLearnFrom() || !of(r) {
			continue
		}
		if key := r.of.Key; trusted[key] == nil {
			trusted[key] = s.trusted(key)
		}
		pool.Begin(r.found.File)
		for k := range r.found.Samples {
			if m := &r.found.Samples[k]; trusted[r.of.Key](m) {
				pool.Add(m)
			}
		}
		for k := range r.found.Failed {
			pool.Fail(&r.found.Failed[k])
		}
	}
	return pool.Set()
}

// release is the one of NCCL that a subject was measured with; "": no run tells.
func (s *Sweep) release(key fit.Key) string {
	for _, r := range s.under("").runs(key) {
		if with := r.setup().NCCL; with != "" {
			return with
		}
	}
	return ""
}

// setup is what a run's log tells of what measured.
func (r *Run) setup() (setup bench.Setup) {
	for i := 0; r.found != nil && i < len(r.found.Samples); i++ {
		if of := setupOf(&r.found.Samples[i]); setup.Tuner == "" {
			setup = of
		}
	}
	return setup
}

// isToLearnFrom reports whether a fit takes what a run measured.
func (r *Run) isToLearnFrom() bool {
	return r.found != nil && !r.again && r.kind != Prove && r.kind != Loaded
}

// Samples are all that was measured to learn from, and what failed.
func (s *Sweep) Samples() (samples, failed []bench.Sample) {
	trusted := map[subjectKey]func(*bench.Sample) bool{}
	for _, r := range s.journal.runs {
		if !r.isToLearnFrom() {
			continue
		}
		if at := keyOf(r.of); trusted[at] == nil {
			trusted[at] = s.under(at.setting).trusted(at.Key)
		}
		for k := range r.found.Samples {
			if m := &r.found.Samples[k]; trusted[keyOf(r.of)](m) {
				samples = append(samples, *m)
			}
		}
		for _, m := range r.found.Failed {
			if m.Bytes == 0 && r.of.Setting == "" { // what fails under another setting may run under this one
				failed = append(failed, m)
			}
		}
	}
	for _, key := range s.Keys { // the journal knows what was planned, logs do not
		failed = append(failed, s.unmet(key)...)
		for a, p := range nccl.Cells {
			if cell := (nccl.Cell{Algo: a, Proto: p}); s.notOffered[key][cell] {
				failed = append(failed, bench.Sample{Call: nccl.Call{Coll: key.Coll}, Comm: key.Comm,
					Config: nccl.Config{Cell: cell}, Selection: bench.SelectionForced, Source: journalFile})
			}
		}
	}
	return samples, failed
}

// asked returns what the runs of a subject that have ended were to measure, whether they succeeded or not.
func (s *Sweep) asked(key fit.Key) map[fit.Request]bool {
	asked := map[fit.Request]bool{}
	for _, r := range s.runs(key) {
		if r.Outcome == Running {
			continue
		}
		for _, at := range r.reach().asked {
			at.Config = s.channels[key].Cap(at.Config)
			asked[at] = true
		}
	}
	return asked
}

// unmet returns what runs were to measure and none did, each as a sample without a time.
func (s *Sweep) unmet(key fit.Key) (all []bench.Sample) {
	asked := s.asked(key)
	for _, r := range s.runs(key) {
		if r.found == nil {
			continue
		}
		for _, m := range r.found.Samples {
			if m.Selection == bench.SelectionOwnChannels {
				m.Channels = 0
			}
			delete(asked, fit.Request{Config: m.Config, Bytes: m.Bytes})
		}
	}
	for a := range asked {
		all = append(all, bench.Sample{
			Call: nccl.Call{Coll: key.Coll, Bytes: a.Bytes}, Comm: key.Comm, Config: a.Config,
			Selection: bench.SelectionForced, Source: journalFile,
		})
	}
	slices.SortFunc(all, func(a, b bench.Sample) int {
		return cmp.Or(a.Config.Compare(b.Config), cmp.Compare(a.Bytes, b.Bytes))
	})
	return all
}
