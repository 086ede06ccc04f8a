package agree

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/digest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/jsonerror"
)

// VersionID names a version of the policy in records, by digests instead of its bytes. The zero value stands for an
// unknown version.
type VersionID struct {
	Content string `json:"content"` // digest
	Meaning string `json:"meaning"` // digest of what it means; equal for files that differ in comments only
	// Dir is where the content lies, under its digest; "" is VersionDir. A proposal's lies beside the other records of
	// the change, and is removed with them.
	Dir string `json:"dir,omitempty"`
}

// Key is that of the record that holds the version's content.
func (v VersionID) Key() string { return cmp.Or(v.Dir, VersionDir) + "/" + v.Content }

// DigestOf is the digest by which records name a content: 128 bits of its SHA-256 in hexadecimal. The record
// of the start version must not exceed 127 bytes. tmpfs keeps a link of that length without a block, so ranks
// can start with a full disk.
func DigestOf(content []byte) string {
	return digest.Of(content).Full()
}

// Proposal is the record of a change that a rank proposes.
type Proposal struct {
	VersionID
	Check  uint64 `json:"check"`  // c, the checkpoint: the call at which each rank promises
	Switch uint64 `json:"switch"` // S: the call from which on the ranks look for the barrier
	Slot   int    `json:"slot"`   // of the proposer
	Tag    string `json:"tag"`    // unlike that of any other proposal
	Token  string `json:"token"`  // the mark of its token, by which ranks know its decision
	// Freeze: this is no proposal and keeps others from being made, because two
	// communicators share the id.
	Freeze bool `json:"freeze,omitempty"`
}

func (p Proposal) valid() error {
	if p.Check == 0 || p.Switch <= p.Check || p.Switch == Never || p.Content == "" {
		return fmt.Errorf("checkpoint %d and switch %d make no proposal", p.Check, p.Switch)
	}
	return nil
}

// Decision is the outcome of a change. Its record is the proposal's token, moved to a key
// that holds all fields except Detail.
type Decision struct {
	Commit bool
	At     uint64 // commit: the barrier, from which on the version is in force
	Abort  Reason
	Calls  uint64 // Late: the count of the rank that was late
	By     int    // slot of the writer; -1: it has none
	Detail string // for people; "": not known
}

// Frozen reports that no change will ever follow.
func (d Decision) Frozen() bool { return d.Abort == Duplicate }

func (d Decision) String() string {
	switch {
	case d.Commit:
		return "commit"
	case d.Detail != "":
		return fmt.Sprintf("%s (%s) by slot %d", d.Abort, d.Detail, d.By)
	}
	return fmt.Sprintf("%s by slot %d", d.Abort, d.By)
}

// Reason says why a change was aborted.
type Reason string

// The reasons for an abort.
const (
	Late        Reason = "late"         // a rank had passed c when it read the proposal
	Stall       Reason = "stall"        // the ranks did not arrive at the barrier in time
	Slow        Reason = "slow"         // acks were missing near S
	Alike       Reason = "alike"        // no call after S differs from the one before it
	Superseded  Reason = "superseded"   // the proposer's file was edited again
	CannotStage Reason = "cannot stage" // a rank cannot read, compile or store the version
	OtherBuild  Reason = "other build"  // the same file means something else to a rank
	Leaving     Reason = "leaving"      // a rank ended the communicator
	Misaligned  Reason = "misaligned"   // the ranks have made different calls
	Duplicate   Reason = "duplicate"    // two communicators share the id
)

// Reasons are all reasons for an abort.
var Reasons = []Reason{Late, Stall, Slow, Alike, Superseded, CannotStage, OtherBuild, Leaving, Misaligned, Duplicate}

// advice returns what a user should know of an abort; "" for nothing.
func (r Reason) advice() string {
	switch r {
	case Misaligned:
		return "the ranks have not made the same calls since init: some have made calls that others have not, as " +
			"ncclGroupSimulateEnd does; the change comes once all have made the same"
	case Alike:
		return "all calls are alike, so nothing would show that one rank has made one more than the others; the " +
			"change comes once a call differs from the one before it"
	}
	return ""
}

// slotRecord is what a rank puts into its slot.
func (c *Config) slotRecord() []byte {
	if c.Name == "" {
		return []byte(c.Identity)
	}
	return []byte(c.Identity + "\n" + c.Name)
}

// parseSlot reads what slotRecord has made.
func parseSlot(record []byte) (identity, name string) {
	identity, name, _ = strings.Cut(string(record), "\n")
	return identity, name
}

// The values of the history record.
const (
	historyKept    = "kept"    // a duplicate follows the decided changes: their records stay
	historyRemoved = "removed" // records of decided changes are removed: no duplicate can follow them
)

func encode(record any) []byte {
	text, err := json.Marshal(record)
	if err != nil {
		panic(err) // only strings and numbers are encoded here
	}
	return text
}

func decode[T any](text []byte) (record T, err error) {
	err = jsonerror.Plain(json.Unmarshal(text, &record))
	return record, err
}
