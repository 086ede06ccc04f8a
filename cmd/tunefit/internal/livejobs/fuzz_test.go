package livejobs

import (
	"encoding/json"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// What status prints of records that may be anybody's: the note of a comparison or of learning, names, a bundle.
func FuzzStatus(f *testing.F) {
	note := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	f.Add(note(trial.Evidence{Format: trial.EvidenceFormat, Version: trial.EvidenceVersion, State: trial.Trying, Factors: []trial.Factor{
		{Arms: []trial.Arm{{}, {Config: nccl.Config{Channels: 8}, Blocks: 3, Effect: -0.1}}}}}),
		"id host 1 2 3 b rank=1", []byte("x"))
	f.Add(note(trial.Conclusion{Key: "k", Comm: nccl.Comm{Nodes: 1, Ranks: 2}}), "x", policyfile.Bundle{}.Encode())
	f.Add([]byte(`{"nodes":1,"ranks":2,"a":{"name":"\u001b"},"b":{"name":"b"},"pairs":-1}`), "\x1b \x1b 1", []byte("cannot-stage"))
	f.Fuzz(func(t *testing.T, note []byte, slot string, content []byte) {
		records := agree.Communicator{Key: agree.CommKey(1, 2), ID: 1, Ranks: 2, Note: note,
			Slots: []agree.Slot{{Index: 0, Identity: slot, Name: slot}},
			Changes: []agree.Change{{K: 1, Decision: &agree.Decision{Abort: agree.Reason(slot), Detail: slot, By: 9}},
				{K: 2, Proposal: &agree.Proposal{VersionID: agree.VersionID{Content: slot, EffectDigest: slot}, Slot: 7}}}}
		c := newCommunicator("/dev/shm/x", records, func(agree.VersionID) *policyfile.Bundle {
			b, err := policyfile.DecodeBundle(content)
			if err != nil {
				return nil
			}
			return &b
		})
		for _, view := range []View{{}, {All: true}, {JSON: true}, {Prometheus: true}} {
			var out, warnings printable
			view.Warnings = &warnings
			if err := view.write(&out, []*Communicator{c}, nil); err != nil && out.steers {
				t.Error(err)
			}
			if out.steers || warnings.steers {
				t.Errorf("%+v prints what steers a terminal", view)
			}
		}
	})
}

// printable notes whether an escape was written to it.
type printable struct{ steers bool }

func (p *printable) Write(text []byte) (int, error) {
	for _, c := range text {
		p.steers = p.steers || c < ' ' && c != '\n' && c != '\t'
	}
	return len(text), nil
}

func BenchmarkWorstStatus(b *testing.B) {
	const head = `{"format":"nccl-tuner-go learning","version":3,"nodes":1,"ranks":8,`
	hostile.Benchmark(b, func(note []byte) error {
		records := agree.Communicator{Key: agree.CommKey(1, 2), ID: 1, Ranks: 2, Note: note,
			Slots: []agree.Slot{{Index: 0, Identity: string(note), Name: string(note)}}}
		c := newCommunicator("/dev/shm/x", records, func(agree.VersionID) *policyfile.Bundle { return nil })
		for _, view := range []View{{}, {All: true}, {JSON: true}, {Prometheus: true}} {
			var out, warnings printable
			view.Warnings = &warnings
			if err := view.write(&out, []*Communicator{c}, nil); err != nil {
				return err
			}
		}
		return c.noComparison
	},
		hostile.Text{Head: head + `"factors":[`, Unit: `{"arms":[{}]},`, Tail: `{"arms":[{}]}]}`},
		hostile.Text{Head: head + `"left_out":[`, Unit: `"x",`, Tail: `""]}`},
		hostile.Text{Head: head + `"blocks":`, Unit: "1", Tail: "}"}, hostile.Text{Head: "id host ", Unit: "1"},
	)
}
