package agree

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

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

// token is the record that a proposal of change k comes with.
func (c keys) token(k uint64, tag string) string {
	h := fnv.New64a()
	h.Write([]byte(tag))
	return fmt.Sprintf("%s/%016x", c.tokens(k), h.Sum64())
}

// parsedKey is the key of one of a communicator's records.
type parsedKey struct {
	comm   keys
	kind   string // init, history, name, known, slot, left, a, m, t, d, why, note, p or open
	number uint64 // of the slot, the change or the note
	rest   string // of a report or a decision
}

func (k parsedKey) hasValue() bool {
	return k.kind == "init" || k.kind == "slot" || k.kind == "why" || k.kind == "note" || k.kind == proposals
}

// parseKey is the inverse of what keys' methods do.
func parseKey(key string) (k parsedKey, ok bool) {
	parts := strings.Split(key, "/")
	if (parts[0] == proposals || parts[0] == undecided) && len(parts) == 2 {
		k.kind = parts[0]
		k.comm, k.number, ok = parseProposalName(parts[1])
		return k, ok
	}
	if parts[0] != "c" || len(parts) < 3 {
		return k, false
	}
	k.comm, k.kind = keys(parts[1]), parts[2]
	if k.kind == "init" || k.kind == "history" || k.kind == "name" || k.kind == "known" {
		return k, len(parts) == 3
	}
	length := map[string]int{"slot": 4, "left": 4, "d": 4, "why": 4, "note": 4, "a": 5, "m": 5, "v": 5, "t": 5}[k.kind]
	if length != len(parts) {
		return k, false
	}
	number, _, _ := strings.Cut(strings.Replace(parts[3], "-", ".", 1), ".")
	k.rest = parts[len(parts)-1]
	var err error
	k.number, err = strconv.ParseUint(number, 10, 63)
	return k, err == nil
}

// parseProposalName splits the last element of the key of a proposal, or of its undecided record.
func parseProposalName(name string) (c keys, k uint64, ok bool) {
	comm, number, ok := strings.Cut(name, ".")
	if !ok {
		return "", 0, false
	}
	k, err := strconv.ParseUint(number, 10, 64)
	return keys(comm), k, err == nil
}

// reportName is the last element of a report's key. A report is an ack or an arrival.
func reportName(hash uint64, slots []int) string {
	names := make([]string, len(slots))
	for i, slot := range slots {
		names[i] = strconv.Itoa(slot)
	}
	return fmt.Sprintf("%s-%016x", strings.Join(names, "."), hash)
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
