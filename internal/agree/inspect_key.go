package agree

import (
	"strconv"
	"strings"
)

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
