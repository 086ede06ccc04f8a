package profile

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// CallKind tells calls apart.
type CallKind struct {
	nccl.Call // as tuners are asked, over all ranks of an AllGather or ReduceScatter; no bytes: not known
	nccl.Comm
	nccl.Cell // that ran; NoCell: not known
}

// Entry is what is known of calls that are alike. Outside of CallKind, 0 is not known.
type Entry struct {
	CallKind
	Calls     float64 `json:"calls,omitempty"`          // of one rank: the mean over the ranks that were recorded
	StepCalls float64 `json:"calls_per_step,omitempty"` // the same, in one step of training
	Micros    float64 `json:"time_us,omitempty"`        // of one call: the median of the least that a rank took
	Channels  int     `json:"channels,omitempty"`       // as they ran, or as the tuner set them
	// DecidedBy is a row as policy.csv:3, a model or NCCL, as the library has it; or ByNoTuner.
	DecidedBy string `json:"decided_by,omitempty"`
}

// ByNCCL is Entry.DecidedBy of NCCL's choice.
const ByNCCL = record.ByNCCL

// ByNoTuner is Entry.DecidedBy of calls for which the recorder saw something run that no tuner chooses, as a symmetric
// kernel.
const ByNoTuner = "no tuner"

// Profile is what a job does, the heaviest first.
type Profile struct {
	Entries []Entry
	// Notes say what the sources do not tell, for a person.
	Notes []string
	Overrides
}

// Weight is how a profile's entries are weighed against each other.
type Weight int

const (
	ByNothing Weight = iota // only the shapes of calls are known
	ByBytes
	ByTime
)

// MarshalText is what shares are shares of.
func (w Weight) MarshalText() ([]byte, error) {
	return []byte([...]string{"nothing", "bytes", "time"}[w]), nil
}

// Scale is what a profile's calls are counted and weighed by.
type Scale struct {
	// PerStep says that calls are counted by the step. Otherwise they are counted over all that was recorded.
	PerStep bool   `json:"per_step"`
	Weight  Weight `json:"share_of"`
}

// timedEnough is the share of the calls, and of their bytes, whose time has to be known for shares of the time.
const timedEnough = 0.95

// Scale is what the profile tells of its calls.
func (p *Profile) Scale() (s Scale) {
	s.PerStep = slices.ContainsFunc(p.Entries, func(e Entry) bool { return e.StepCalls > 0 }) &&
		!slices.ContainsFunc(p.Entries, func(e Entry) bool { return e.StepCalls == 0 && e.Calls > 0 })
	var calls, timedCalls, bytes, timedBytes float64
	for _, e := range p.Entries {
		if e.Bytes == 0 {
			continue
		}
		n := s.Count(e)
		calls, bytes = calls+n, bytes+n*float64(e.Bytes)
		if e.Micros > 0 {
			timedCalls, timedBytes = timedCalls+n, timedBytes+n*float64(e.Bytes)
		}
	}
	switch {
	case calls == 0:
	case timedCalls < timedEnough*calls || timedBytes < timedEnough*bytes:
		s.Weight = ByBytes
	default:
		s.Weight = ByTime
	}
	return s
}

// Count is how often calls are made; 0: not known.
func (s Scale) Count(e Entry) float64 {
	if s.PerStep {
		return e.StepCalls
	}
	return e.Calls
}

// Of is the weight of an entry: microseconds or bytes. 0: not known.
func (s Scale) Of(e Entry) float64 {
	switch s.Weight {
	case ByTime:
		return s.Count(e) * e.Micros
	case ByBytes:
		return s.Count(e) * float64(e.Bytes)
	}
	return 0
}

// Duration writes microseconds for a person.
func Duration(us float64) string {
	switch {
	case us < 1e3:
		return fmt.Sprintf("%.4g us", us)
	case us < 1e6:
		return fmt.Sprintf("%.4g ms", us/1e3)
	}
	return fmt.Sprintf("%.5g s", us/1e6)
}

// Total is the weight of all entries.
func (p *Profile) Total() (sum float64) {
	w := p.Scale()
	for _, e := range p.Entries {
		sum += w.Of(e)
	}
	return sum
}

// sort puts the heaviest first, and among equals the order of the names and the size.
func (p *Profile) sort() {
	w := p.Scale()
	slices.SortFunc(p.Entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(w.Of(b), w.Of(a)), a.CallKind.compare(b.CallKind))
	})
}

func (c CallKind) compare(o CallKind) int {
	return cmp.Or(cmp.Compare(c.Coll, o.Coll), c.Comm.Compare(o.Comm), cmp.Compare(c.Bytes, o.Bytes),
		c.Cell.Compare(o.Cell))
}

// SizeBin is the calls of one collective on communicators of one shape, of sizes from a power of 2 up to less than
// twice that.
type SizeBin struct {
	Coll nccl.Coll
	nccl.Comm
	Weight  float64
	Entries []Entry // by size
}

// Sizes returns the smallest and the largest size.
func (g *SizeBin) Sizes() (least, most uint64) {
	return g.Entries[0].Bytes, g.Entries[len(g.Entries)-1].Bytes
}

// SizeBins are the entries of known size, put together, the heaviest bin first.
func (p *Profile) SizeBins() []SizeBin {
	w := p.Scale()
	at := map[CallKind]int{}
	var all []SizeBin
	for _, e := range p.Entries {
		if e.Bytes == 0 {
			continue
		}
		k := CallKind{nccl.Call{Coll: e.Coll, Bytes: 1 << (bits.Len64(e.Bytes) - 1)}, e.Comm, nccl.NoCell}
		i, ok := at[k]
		if !ok {
			i = len(all)
			at[k], all = i, append(all, SizeBin{Coll: e.Coll, Comm: e.Comm})
		}
		all[i].Weight += w.Of(e)
		all[i].Entries = append(all[i].Entries, e)
	}
	for _, g := range all {
		slices.SortFunc(g.Entries, func(a, b Entry) int { return a.CallKind.compare(b.CallKind) })
	}
	slices.SortStableFunc(all, func(a, b SizeBin) int { return cmp.Compare(b.Weight, a.Weight) })
	return all
}
