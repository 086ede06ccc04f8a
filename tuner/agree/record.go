package agree

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Version names one state of the policy.
type Version struct {
	Content []byte // as read from the file
	Meaning string // digest of what it means; equal for files that differ in comments only
	Digest  string // of the content, as DigestOf returns it; "" where it is not known yet
}

// record returns the version as records name it.
func (v Version) record() version {
	if v.Digest == "" {
		v.Digest = DigestOf(v.Content)
	}
	return version{v.Digest, v.Meaning}
}

// version is a Version in records: a blob's name instead of its bytes.
type version struct {
	Content string `json:"content"` // digest of the blob
	Meaning string `json:"meaning"`
}

// Proposal is the record of a change that a rank wishes.
type Proposal struct {
	version
	Check  uint64 `json:"check"`  // c: the call at which each rank promises
	Switch uint64 `json:"switch"` // S: the call at which the version comes into force
	Slot   int    `json:"slot"`   // of the proposer
}

func (p Proposal) valid() error {
	if p.Check == 0 || p.Switch <= p.Check || p.Switch == Never || p.Content == "" {
		return fmt.Errorf("checkpoint %d and switch %d make no proposal", p.Check, p.Switch)
	}
	return nil
}

// Reason says why a change was aborted.
type Reason string

// The reasons for an abort.
const (
	Late        Reason = "late"         // a rank was beyond c when it learnt of the proposal
	Stall       Reason = "stall"        // a rank reached S undecided
	Slow        Reason = "slow"         // acknowledgements were missing near S
	Superseded  Reason = "superseded"   // the proposer's file changed again
	CannotStage Reason = "cannot stage" // a rank cannot read, compile or store the version
	OtherBuild  Reason = "other build"  // the same file means something else to a rank
	Leaving     Reason = "leaving"      // a rank ended the communicator
	Misaligned  Reason = "misaligned"   // the ranks count calls differently
	Duplicate   Reason = "duplicate"    // two communicators share the id
)

// Decision is the record of a change's fate.
type Decision struct {
	Commit bool   `json:"commit,omitempty"`
	Abort  Reason `json:"abort,omitempty"`
	Detail string `json:"detail,omitempty"`
	Calls  uint64 `json:"calls,omitempty"`  // Late: the count of the rank that was late
	By     int    `json:"by"`               // slot of the writer; -1 has none
	Frozen bool   `json:"frozen,omitempty"` // no change will ever follow
}

func (d Decision) String() string {
	switch {
	case d.Commit:
		return "commit"
	case d.Detail != "":
		return fmt.Sprintf("%s (%s) by slot %d", d.Abort, d.Detail, d.By)
	}
	return fmt.Sprintf("%s by slot %d", d.Abort, d.By)
}

func encode(record any) []byte {
	text, err := json.Marshal(record)
	if err != nil {
		panic(err) // only strings and numbers are encoded here
	}
	return text
}

func decode[T any](text []byte) (record T, err error) {
	err = json.Unmarshal(text, &record)
	return record, err
}

// DigestOf is the digest by which records name a content.
func DigestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Keys. All proposals lie in one directory, so that one listing shows them all.

const proposals = "p"

// VersionDir is where the contents of versions lie, each under its digest.
const VersionDir = "blob"

func blobKey(digest string) string { return VersionDir + "/" + digest }

// keys are those of one communicator.
type keys string

// CommKey is the part of the keys that names the communicator.
func CommKey(id uint64, ranks int) string { return fmt.Sprintf("%016x-%d", id, ranks) }

func (c keys) init() string             { return "c/" + string(c) + "/init" }
func (c keys) slots() string            { return "c/" + string(c) + "/slot" }
func (c keys) slot(i int) string        { return c.slots() + "/" + strconv.Itoa(i) }
func (c keys) left(i int) string        { return fmt.Sprintf("c/%s/left/%d", string(c), i) }
func (c keys) acks(k uint64) string     { return fmt.Sprintf("c/%s/a/%d", string(c), k) }
func (c keys) decision(k uint64) string { return fmt.Sprintf("c/%s/d/%d", string(c), k) }
func (c keys) proposal(k uint64) string { return fmt.Sprintf("%s/%s.%d", proposals, string(c), k) }

// ack is one rank's acknowledgement, or that of several with the same hash.
func (c keys) ack(k uint64, hash uint64, slots ...int) string {
	names := make([]string, len(slots))
	for i, slot := range slots {
		names[i] = strconv.Itoa(slot)
	}
	return fmt.Sprintf("%s/%s-%016x", c.acks(k), strings.Join(names, "."), hash)
}

// parseProposalName splits the last element of a proposal's key.
func parseProposalName(name string) (c keys, k uint64, ok bool) {
	comm, number, ok := strings.Cut(name, ".")
	if !ok {
		return "", 0, false
	}
	k, err := strconv.ParseUint(number, 10, 64)
	return keys(comm), k, err == nil
}

// parseAckName splits the last element of an acknowledgement's key.
func parseAckName(name string) (slots []int, hash uint64, ok bool) {
	before, after, ok := strings.Cut(name, "-")
	if !ok {
		return nil, 0, false
	}
	for _, text := range strings.Split(before, ".") {
		slot, err := strconv.Atoi(text)
		if err != nil || slot < 0 {
			return nil, 0, false
		}
		slots = append(slots, slot)
	}
	hash, err := strconv.ParseUint(after, 16, 64)
	return slots, hash, err == nil
}
