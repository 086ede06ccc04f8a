package agree

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Version is one state of the policy.
type Version struct {
	Content []byte // as read from the file
	Meaning string // digest of what it means; equal for files that differ in comments only
	Digest  string // of the content, as DigestOf returns it; "": not computed yet
}

// name returns the version's name in records.
func (v Version) name() VersionName {
	if v.Digest == "" {
		v.Digest = DigestOf(v.Content)
	}
	return VersionName{Content: v.Digest, Meaning: v.Meaning}
}

// VersionName names a version in records, by digests instead of its bytes. The zero value stands for an
// unknown version.
type VersionName struct {
	Content string `json:"content"` // digest
	Meaning string `json:"meaning"` // digest
	// Dir is where the content lies, under its digest; "" is VersionDir. A proposal's lies beside the other records of
	// the change, and is removed with them.
	Dir string `json:"dir,omitempty"`
}

// Key is that of the record that holds the version's content.
func (v VersionName) Key() string { return cmp.Or(v.Dir, VersionDir) + "/" + v.Content }

// Proposal is the record of a change that a rank proposes.
type Proposal struct {
	VersionName
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

// Decision is the outcome of a change. Its record is the proposal's token, moved to a key
// that holds all fields except Detail.
type Decision struct {
	Commit bool   `json:"commit"`
	At     uint64 `json:"switch_call,omitempty"` // commit: the barrier, from which on the version is in force
	Abort  Reason `json:"reason,omitempty"`
	Calls  uint64 `json:"calls,omitempty"`  // Late: the count of the rank that was late
	By     int    `json:"by_slot"`          // slot of the writer; -1: it has none
	Detail string `json:"detail,omitempty"` // for people; "": not known
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

// name is the last element of the decision's key.
func (d Decision) name(k uint64) string {
	what, number := "commit", d.At
	if !d.Commit {
		what, number = strings.ReplaceAll(string(d.Abort), " ", "-"), d.Calls
	}
	return fmt.Sprintf("%d.%s.%d.%d", k, what, number, d.By+1)
}

// parseDecision is the inverse of name.
func parseDecision(name string) (k uint64, d Decision, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 4 {
		return 0, d, false
	}
	k, err := strconv.ParseUint(parts[0], 10, 64)
	number, err2 := strconv.ParseUint(parts[2], 10, 64)
	by, err3 := strconv.Atoi(parts[3])
	if err != nil || err2 != nil || err3 != nil {
		return 0, d, false
	}
	d.By = by - 1
	if d.Commit = parts[1] == "commit"; d.Commit {
		d.At = number
	} else {
		d.Abort, d.Calls = Reason(strings.ReplaceAll(parts[1], "-", " ")), number
	}
	return k, d, true
}

func encode(record any) []byte {
	text, err := json.Marshal(record)
	if err != nil {
		panic(err) // only strings and numbers are encoded here
	}
	return text
}

func decode[T any](text []byte) (record T, err error) {
	err = wording.JSONError(json.Unmarshal(text, &record))
	return record, err
}

// DigestOf is the digest by which records name a content: 128 bits of its SHA-256 in hexadecimal. The record
// of the start version must not exceed 127 bytes. tmpfs keeps a link of that length without a block, so ranks
// can start with a full disk.
func DigestOf(content []byte) string {
	return identity.DigestOf(content).Full()
}

// Keys.

const (
	proposals = "p"
	// undecided holds an empty record for each proposal that may not be decided yet. Members list it: one
	// listing shows the new changes of all communicators, and no old ones.
	undecided = "open"
)

// VersionDir is where the contents of the versions lie that communicators start with.
const VersionDir = "blob"

// EndedDir holds an empty record for each communicator that has ended and whose other records
// were removed. Its keys are never used again.
const EndedDir = "ended"

// keys are those of one communicator.
type keys string

// CommKey is the part of the keys that names the communicator.
func CommKey(id uint64, ranks int) string { return fmt.Sprintf("%016x-%d", id, ranks) }

func (c keys) init() string             { return "c/" + string(c) + "/init" }
func (c keys) slots() string            { return "c/" + string(c) + "/slot" }
func (c keys) slot(i int) string        { return c.slots() + "/" + strconv.Itoa(i) }
func (c keys) departedDir() string      { return "c/" + string(c) + "/left" }
func (c keys) left(i int) string        { return c.departedDir() + "/" + strconv.Itoa(i) }
func (c keys) acks(k uint64) string     { return fmt.Sprintf("c/%s/a/%d", string(c), k) }
func (c keys) arrivals(k uint64) string { return fmt.Sprintf("c/%s/m/%d", string(c), k) }
func (c keys) contents(k uint64) string { return fmt.Sprintf("c/%s/v/%d", string(c), k) }
func (c keys) tokens(k uint64) string   { return fmt.Sprintf("c/%s/t/%d", string(c), k) }
func (c keys) decisions() string        { return "c/" + string(c) + "/d" }
func (c keys) detail(k uint64) string   { return fmt.Sprintf("c/%s/why/%d", string(c), k) }
func (c keys) note(n uint64) string     { return fmt.Sprintf("c/%s/note/%d", string(c), n) }
func (c keys) proposal(k uint64) string { return fmt.Sprintf("%s/%s.%d", proposals, string(c), k) }
func (c keys) open(k uint64) string     { return fmt.Sprintf("%s/%s.%d", undecided, string(c), k) }
func (c keys) history() string          { return "c/" + string(c) + "/history" }
func (c keys) name() string             { return "c/" + string(c) + "/name" }
func (c keys) known() string            { return "c/" + string(c) + "/known" }
func (c keys) ended() string            { return EndedDir + "/" + string(c) }
func (c keys) all() string              { return "c/" + string(c) }

// ack is the key of the report that ranks of equal hash have promised.
func (c keys) ack(k uint64, hash uint64, slots ...int) string {
	return c.acks(k) + "/" + reportName(hash, slots)
}

// arrival is the key of the report that ranks of equal hash are at the barrier.
func (c keys) arrival(k uint64, hash uint64, slots ...int) string {
	return c.arrivals(k) + "/" + reportName(hash, slots)
}

// reportName is the last element of a report's key. A report is an ack or an arrival.
func reportName(hash uint64, slots []int) string {
	names := make([]string, len(slots))
	for i, slot := range slots {
		names[i] = strconv.Itoa(slot)
	}
	return fmt.Sprintf("%s-%016x", strings.Join(names, "."), hash)
}

// token is the record that a proposal of change k comes with.
func (c keys) token(k uint64, tag string) string {
	h := fnv.New64a()
	h.Write([]byte(tag))
	return fmt.Sprintf("%s/%016x", c.tokens(k), h.Sum64())
}

// The values of the history record.
const (
	historyKept    = "kept"    // a duplicate follows the decided changes: their records stay
	historyRemoved = "removed" // records of decided changes are removed: no duplicate can follow them
)

// parseProposalName splits the last element of the key of a proposal, or of its undecided record.
func parseProposalName(name string) (c keys, k uint64, ok bool) {
	comm, number, ok := strings.Cut(name, ".")
	if !ok {
		return "", 0, false
	}
	k, err := strconv.ParseUint(number, 10, 64)
	return keys(comm), k, err == nil
}

// parseReportName is the inverse of reportName.
func parseReportName(name string) (slots []int, hash uint64, ok bool) {
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
