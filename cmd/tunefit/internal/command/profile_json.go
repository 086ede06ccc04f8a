package command

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
)

// profileJSON is a profile as programs read it. What is not known is left out.
type profileJSON struct {
	Headline string      `json:"headline"`
	ShareOf  string      `json:"share_of"` // time, bytes, or nothing
	PerStep  bool        `json:"per_step"` // calls and totals are per step, else of the whole recording
	Total    float64     `json:"total"`    // microseconds or bytes
	Decided  *float64    `json:"decided_share,omitempty"`
	Saved    *float64    `json:"expected_saving,omitempty"` // share of the time
	Notes    []string    `json:"notes"`
	Calls    []entryJSON `json:"calls"`
}

// entryJSON is an entry with its share and bandwidth. What is not known is left out.
type entryJSON struct {
	KeyJSON
	Bytes     uint64  `json:"bytes,omitempty"`
	Share     float64 `json:"share,omitempty"`
	Calls     float64 `json:"calls,omitempty"`
	StepCalls float64 `json:"calls_per_step,omitempty"`
	StepBytes float64 `json:"bytes_per_step,omitempty"`
	Micros    float64 `json:"time_us,omitempty"`
	BusBW     float64 `json:"busbw_gbps,omitempty"`
	Algorithm string  `json:"algorithm,omitempty"`
	Protocol  string  `json:"protocol,omitempty"`
	Channels  int     `json:"channels,omitempty"`
	DecidedBy string  `json:"decided_by,omitempty"`
	// Outcome is what the policy and the model decide, as in tunefit show --json.
	Outcome *ask.Outcome `json:"outcome,omitempty"`
}

func shareOf(s profile.Scale) string { return [...]string{"nothing", "bytes", "time"}[s.Weight] }

func (v *profileView) json() profileJSON {
	j := profileJSON{
		Headline: v.headline(), ShareOf: shareOf(v.scale), PerStep: v.scale.PerStep, Total: v.total,
		Notes: append([]string{}, v.Notes...), Calls: []entryJSON{},
	}
	if s := v.saving(); v.by != (ask.Decider{}) && v.total > 0 {
		decided, saved := s.decided/v.total, s.saved/v.total
		if j.Decided = &decided; v.scale.Weight == profile.ByTime && s.known > 0 {
			j.Saved = &saved
		}
	}
	for _, e := range v.Entries {
		c := entryJSON{
			KeyJSON: KeyJSON{e.Coll, e.Comm}, Bytes: e.Bytes, Calls: e.Calls, StepCalls: e.StepCalls,
			StepBytes: e.StepCalls * float64(e.Bytes), Micros: e.Micros, BusBW: busBW(e), Channels: e.Channels,
			DecidedBy: e.DecidedBy,
		}
		if v.total > 0 {
			c.Share = v.scale.Of(e) / v.total
		}
		if e.Algo >= 0 {
			c.Algorithm = e.Algo.String()
		}
		if e.Proto >= 0 {
			c.Protocol = e.Proto.String()
		}
		if o, ok := v.outcomes[e.CallKind]; ok {
			c.Outcome = &o
		}
		j.Calls = append(j.Calls, c)
	}
	return j
}
