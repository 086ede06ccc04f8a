package agree

import (
	"strconv"
	"strings"
)

// parsedKey is the key of one of a communicator's records.
type parsedKey struct {
	comm   keys
	kind   string // init, slot, left, a, d or p
	number uint64 // of the slot or the change
	rest   string // of an acknowledgement
}

func (k parsedKey) hasValue() bool { return k.kind != "a" && k.kind != "left" }

// parseKey is the inverse of what keys' methods do.
func parseKey(key string) (k parsedKey, ok bool) {
	parts := strings.Split(key, "/")
	if parts[0] == proposals && len(parts) == 2 {
		k.kind = proposals
		k.comm, k.number, ok = parseProposalName(parts[1])
		return k, ok
	}
	if parts[0] != "c" || len(parts) < 3 {
		return k, false
	}
	k.comm, k.kind = keys(parts[1]), parts[2]
	if k.kind == "init" {
		return k, len(parts) == 3
	}
	length := map[string]int{"slot": 4, "left": 4, "d": 4, "a": 5}[k.kind]
	if length != len(parts) {
		return k, false
	}
	number, err := strconv.ParseUint(parts[3], 10, 63)
	k.number, k.rest = number, parts[len(parts)-1]
	return k, err == nil
}

// parseCommKey is the inverse of CommKey.
func parseCommKey(key string) (id uint64, ranks int, ok bool) {
	hexID, number, ok := strings.Cut(key, "-")
	id, err := strconv.ParseUint(hexID, 16, 64)
	if !ok || err != nil {
		return 0, 0, false
	}
	ranks, err = strconv.Atoi(number)
	return id, ranks, err == nil && ranks > 0 && CommKey(id, ranks) == key
}
