package livejobs

import (
	"encoding/json"
	"io"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// CommunicatorJSON is a communicator as status --json prints it.
type CommunicatorJSON struct {
	Rendezvous   string       `json:"rendezvous"`
	Communicator string       `json:"communicator"`
	Ranks        int          `json:"ranks"`
	Ended        bool         `json:"ended"`
	Version      string       `json:"version"`
	Content      string       `json:"content"`
	Since        time.Time    `json:"since,omitzero"` // left out where not known, as all times
	Policy       string       `json:"policy,omitempty"`
	Model        string       `json:"model,omitempty"`
	Members      []memberJSON `json:"members"`
	Frozen       bool         `json:"frozen"`
	Changes      []changeJSON `json:"changes"`
	Faults       []string     `json:"faults,omitempty"`
	// Comparison is of the policy, in the running job; left out where none was asked for.
	Comparison *trial.Finding `json:"comparison,omitempty"`
}

type memberJSON struct {
	Slot int    `json:"slot"`
	Rank *int   `json:"rank,omitempty"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	Life string `json:"life"` // running, stopped, dead, unknown
	Left bool   `json:"left"` // has ended the communicator
}

type changeJSON struct {
	Number   uint64    `json:"number"`
	State    string    `json:"state"` // pending, committed, refused
	Version  string    `json:"version,omitempty"`
	Content  string    `json:"content,omitempty"`
	Proposer *int      `json:"proposer_slot,omitempty"`
	Check    uint64    `json:"checkpoint_call,omitempty"`
	Switch   uint64    `json:"switch_call,omitempty"`
	Proposed time.Time `json:"proposed,omitzero"`
	Missing  []int     `json:"missing_slots,omitempty"` // of a pending one: who has not acknowledged
	Decided  time.Time `json:"decided,omitzero"`
	Reason   string    `json:"reason,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	By       *int      `json:"by_slot,omitempty"`
	Why      string    `json:"why,omitempty"`
	Remedy   string    `json:"remedy,omitempty"`
}

func writeStatusJSON(w io.Writer, all []communicator, oneLine bool) error {
	list := make([]CommunicatorJSON, 0, len(all))
	for i := range all {
		list = append(list, newStatusJSON(&all[i]))
	}
	encoder := json.NewEncoder(w)
	if !oneLine {
		encoder.SetIndent("", "  ")
	}
	return encoder.Encode(list)
}

func newStatusJSON(c *communicator) CommunicatorJSON {
	j := CommunicatorJSON{Rendezvous: c.place.Name, Communicator: c.name(), Ranks: c.Ranks, Ended: c.over(),
		Version: c.version.Meaning, Content: c.version.Content, Since: c.since, Frozen: c.frozen != nil,
		Members: []memberJSON{}, Changes: []changeJSON{}}
	j.Policy, j.Model = c.paths()
	if found, err := comparison(c); err == nil {
		j.Comparison = found
	}
	for _, m := range c.members {
		var rank *int
		if m.rank >= 0 {
			rank = &m.rank
		}
		j.Members = append(j.Members, memberJSON{m.slot, rank, m.process.Host, m.process.PID, m.state.String(), m.left})
	}
	for _, change := range c.Changes {
		x := changeJSON{Number: change.K, State: "pending", Proposed: change.Proposed, Decided: change.Decided}
		if p := change.Proposal; p != nil {
			x.Version, x.Content, x.Proposer, x.Check, x.Switch = p.Meaning, p.Content, &p.Slot, p.Check, p.Switch
		}
		if d := change.Decision; d != nil && d.Commit {
			x.State, x.Switch = "committed", d.At
		} else if d != nil {
			x.State, x.Reason, x.Detail, x.By = "refused", string(d.Abort), d.Detail, &d.By
			x.Why, x.Remedy = inWords(c, d)
		} else {
			for _, m := range c.missing() {
				x.Missing = append(x.Missing, m.slot)
			}
		}
		j.Changes = append(j.Changes, x)
	}
	for _, err := range c.Faults {
		j.Faults = append(j.Faults, err.Error())
	}
	return j
}
