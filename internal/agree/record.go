package agree

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// VersionID names a version of the policy in records, by digests instead of its bytes. The zero value stands for an
// unknown version.
type VersionID struct {
	Content      string `json:"content"` // digest
	EffectDigest string `json:"meaning"` // digest of what it means; equal for files that differ in comments only
	// Dir is where the content lies, under its digest; "" is VersionDir. A proposal's lies beside the other records of
	// the change, and is removed with them.
	Dir string `json:"dir,omitempty"`
}

// Key is that of the record that holds the version's content.
func (v VersionID) Key() string { return cmp.Or(v.Dir, VersionDir) + "/" + v.Content }

// readContent returns a version's content if its digest is right.
func readContent(ctx context.Context, get func(context.Context, string) ([]byte, bool, error),
	v VersionID) (content []byte, ok bool) {
	content, found, err := get(ctx, v.Key())
	return content, err == nil && found && DigestOf(content) == v.Content
}

// DigestOf is the digest by which records name a content: 128 bits of its SHA-256 in hexadecimal. The record
// of the start version must not exceed 127 bytes. tmpfs keeps a link of that length without a block, so ranks
// can start with a full disk.
func DigestOf(content []byte) string {
	return identity.DigestOf(content).Full()
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
	// communicators share the id. Without it and a content, the communicator is ending.
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
		return fmt.Sprintf("%s (%s) by rank index %d", d.Abort, d.Detail, d.By)
	}
	return fmt.Sprintf("%s by rank index %d", d.Abort, d.By)
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

// kind says what a record holds. Its key has it as an element.
type kind string

const (
	kindInit     kind = "init"  // the version that the communicator starts on, a VersionID
	kindName     kind = "name"  // see Ranks.Name
	kindKnown    kind = "known" // see Ranks.Same
	kindSlot     kind = "slot"  // who owns a slot
	kindLeft     kind = "left"  // the owner of a slot has ended the communicator
	kindNote     kind = "note"  // see Member.PublishStatus
	kindDetail   kind = "why"   // Decision.Detail
	kindDecision kind = "d"     // a token, moved
	kindAck      kind = "a"     // ranks have promised
	kindArrival  kind = "m"     // ranks are at the barrier
	kindContent  kind = "v"     // of a proposed version
	kindToken    kind = "t"     // of a proposal
	kindProposal kind = "p"
	// kindOpen is an empty record for each proposal that may not be decided yet. Members list these: one listing
	// shows the new changes of all communicators, and no old ones.
	kindOpen kind = "open"
)

// Folders at the top of a store, besides those of kindProposal and kindOpen.
const (
	CommsDir   = "c"    // has a folder for each communicator
	VersionDir = "blob" // the contents of the versions that communicators start with
	// EndedDir holds an empty record for each communicator that has ended and whose other records
	// were removed. Its keys are never used again.
	EndedDir = "ended"
)

// Dirs are all of these folders.
var Dirs = []string{VersionDir, CommsDir, EndedDir, string(kindOpen), string(kindProposal)}

// keys are those of one communicator.
type keys string

// CommKey is the part of the keys that names the communicator.
func CommKey(id uint64, ranks int) string { return fmt.Sprintf("%016x-%d", id, ranks) }

// parseCommKey is the inverse of CommKey. The key of a later communicator of the same id ends with its
// number.
func parseCommKey(key string) (id uint64, ranks int, ok bool) {
	hexID, number, ok := strings.Cut(key, "-")
	id, err := strconv.ParseUint(hexID, 16, 64)
	if !ok || err != nil {
		return 0, 0, false
	}
	number, generation, later := strings.Cut(number, "-")
	ranks, err = strconv.Atoi(number)
	want := CommKey(id, ranks)
	if later {
		want += "-" + generation
		if _, err := strconv.ParseUint(generation, 10, 63); err != nil {
			return 0, 0, false
		}
	}
	return id, ranks, err == nil && ranks > 0 && want == key
}

func (c keys) all() string { return CommsDir + "/" + string(c) }

// dir is the folder of records of a kind, or the key of the only one.
func (c keys) dir(of kind) string     { return c.all() + "/" + string(of) }
func (c keys) slot(i int) string      { return c.of(kindSlot, uint64(i)) }
func (c keys) left(i int) string      { return c.of(kindLeft, uint64(i)) }
func (c keys) note(n uint64) string   { return c.of(kindNote, n) }
func (c keys) detail(k uint64) string { return c.of(kindDetail, k) }
func (c keys) ended() string          { return EndedDir + "/" + string(c) }

// of is the key of a record, or of the folder of a change's records of this kind.
func (c keys) of(of kind, number uint64) string { return fmt.Sprintf("%s/%d", c.dir(of), number) }

func (c keys) proposal(k uint64) string { return fmt.Sprintf("%s/%s.%d", kindProposal, c, k) }
func (c keys) open(k uint64) string     { return fmt.Sprintf("%s/%s.%d", kindOpen, c, k) }

// ack is the key of the report that ranks of equal hash have promised.
func (c keys) ack(k uint64, hash uint64, slots ...int) string {
	return c.of(kindAck, k) + "/" + reportName(hash, slots)
}

// arrival is the key of the report that ranks of equal hash are at the barrier.
func (c keys) arrival(k uint64, hash uint64, slots ...int) string {
	return c.of(kindArrival, k) + "/" + reportName(hash, slots)
}

// token is the record that a proposal of change k comes with.
func (c keys) token(k uint64, tag string) string {
	h := fnv.New64a()
	h.Write([]byte(tag))
	return fmt.Sprintf("%s/%016x", c.of(kindToken, k), h.Sum64())
}

// decision is the key of a decision of change k. It holds all fields of it except Detail.
func (c keys) decision(k uint64, d Decision) string {
	what, number := "commit", d.At
	if !d.Commit {
		what, number = strings.ReplaceAll(string(d.Abort), " ", "-"), d.Calls
	}
	return fmt.Sprintf("%s/%d.%s.%d.%d", c.dir(kindDecision), k, what, number, d.By+1)
}

// Key is what the key of a record says.
type Key struct {
	Comm   string // CommKey's, or that of a later communicator of the id; "": the record belongs to none
	text   string // the key itself
	kind   kind
	number uint64 // of the slot, the change or the note
	name   string // the last element
}

// depth is how many elements below the communicator's a key has.
var depth = map[kind]int{
	kindInit: 1, kindName: 1, kindKnown: 1,
	kindSlot: 2, kindLeft: 2, kindNote: 2, kindDetail: 2, kindDecision: 2,
	kindAck: 3, kindArrival: 3, kindContent: 3, kindToken: 3,
}

// ParseKey takes a key apart. ok is false for what is no key of a communicator's record. Of a folder, Comm and kind
// are set all the same.
func ParseKey(key string) (k Key, ok bool) {
	parts := strings.Split(key, "/")
	k.text, k.name = key, parts[len(parts)-1]
	var number string
	var err error
	switch top := parts[0]; {
	case top == CommsDir && len(parts) > 1:
		k.Comm, parts = parts[1], parts[2:]
		if len(parts) == 0 {
			return k, false
		}
		k.kind = kind(parts[0])
		if len(parts) != depth[k.kind] {
			return k, false
		}
		if len(parts) == 1 {
			return k, true
		}
		if number = parts[1]; k.kind == kindDecision {
			number, _, _ = strings.Cut(number, ".")
		}
	case kind(top) == kindProposal || kind(top) == kindOpen:
		k.kind = kind(top)
		if len(parts) != 2 {
			return k, false
		}
		k.Comm, number, _ = strings.Cut(k.name, ".")
	}
	k.number, err = strconv.ParseUint(number, 10, 63)
	return k, err == nil
}

// listKeys returns the keys of a communicator's records in a folder.
func listKeys(ctx context.Context, s Store, dir string) (all []Key, err error) {
	names, err := s.List(ctx, dir)
	for _, name := range names {
		if k, ok := ParseKey(dir + "/" + name); ok {
			all = append(all, k)
		}
	}
	return all, err
}

func (k Key) String() string { return k.text }

// IsMembership reports that a record says who owns a slot, or that the owner has left.
func (k Key) IsMembership() bool { return k.kind == kindSlot || k.kind == kindLeft }

// isReport reports that a record is an ack or an arrival.
func (k Key) isReport() bool { return k.kind == kindAck || k.kind == kindArrival }

func (k Key) hasValue() bool {
	switch k.kind {
	case kindInit, kindSlot, kindDetail, kindNote, kindProposal:
		return true
	}
	return false
}

// decision returns what the key of a decision says.
func (k Key) decision() (d Decision, ok bool) {
	parts := strings.Split(k.name, ".")
	if k.kind != kindDecision || len(parts) != 4 {
		return d, false
	}
	number, err := strconv.ParseUint(parts[2], 10, 64)
	by, err2 := strconv.Atoi(parts[3])
	if err != nil || err2 != nil {
		return d, false
	}
	d.By = by - 1
	if d.Commit = parts[1] == "commit"; d.Commit {
		d.At = number
	} else {
		d.Abort, d.Calls = Reason(strings.ReplaceAll(parts[1], "-", " ")), number
	}
	return d, true
}

// report returns the slots and the hash that the key of a report says.
func (k Key) report() (slots []int, hash uint64, ok bool) {
	before, after, ok := strings.Cut(k.name, "-")
	if !ok || !k.isReport() {
		return nil, 0, false
	}
	for text := range strings.SplitSeq(before, ".") {
		slot, err := strconv.Atoi(text)
		if err != nil || slot < 0 {
			return nil, 0, false
		}
		slots = append(slots, slot)
	}
	hash, err := strconv.ParseUint(after, 16, 64)
	return slots, hash, err == nil
}

// reportName is the last element of a report's key.
func reportName(hash uint64, slots []int) string {
	names := make([]string, len(slots))
	for i, slot := range slots {
		names[i] = strconv.Itoa(slot)
	}
	return fmt.Sprintf("%s-%016x", strings.Join(names, "."), hash)
}
