package command

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// profileJSON is a profile as programs read it. What is not known is left out.
type profileJSON struct {
	Headline string `json:"headline"`
	profile.Scale
	Total   float64     `json:"total"` // microseconds or bytes
	Decided *float64    `json:"decided_share,omitempty"`
	Saved   *float64    `json:"expected_saving,omitempty"` // share of the time
	Notes   []string    `json:"notes"`
	Calls   []entryJSON `json:"calls"`
}

// entryJSON is an entry with its share and bandwidth. What is not known is left out.
type entryJSON struct {
	profile.Entry
	Bytes     uint64      `json:"bytes,omitempty"`
	Algo      *nccl.Algo  `json:"algorithm,omitempty"`
	Proto     *nccl.Proto `json:"protocol,omitempty"`
	Share     float64     `json:"share,omitempty"`
	StepBytes float64     `json:"bytes_per_step,omitempty"`
	BusBW     float64     `json:"busbw_gbps,omitempty"`
	// Outcome is what the policy and the model decide, as in tunefit show --json.
	Outcome *ask.Outcome `json:"outcome,omitempty"`
}

func (v *profileView) json() profileJSON {
	j := profileJSON{Headline: v.headline(), Scale: v.scale, Total: v.total, Notes: append([]string{}, v.Notes...),
		Calls: []entryJSON{}}
	if s := v.saving(); v.by != (ask.Decider{}) && v.total > 0 {
		decided, saved := s.decided/v.total, s.saved/v.total
		if j.Decided = &decided; v.scale.Weight == profile.ByTime && s.known > 0 {
			j.Saved = &saved
		}
	}
	for _, e := range v.Entries {
		c := entryJSON{Entry: e, Bytes: e.Bytes, StepBytes: e.StepCalls * float64(e.Bytes), BusBW: busBW(e)}
		if v.total > 0 {
			c.Share = v.scale.Of(e) / v.total
		}
		if e.Algo >= 0 {
			c.Algo = &e.Algo
		}
		if e.Proto >= 0 {
			c.Proto = &e.Proto
		}
		if o, ok := v.outcomes[e.CallKind]; ok {
			c.Outcome = &o
		}
		j.Calls = append(j.Calls, c)
	}
	return j
}
