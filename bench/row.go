package bench

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// layout is what a header line of nccl-tests says of the rows below it.
type layout struct {
	known     bool
	names     []string // before the first time
	half      []int    // columns of one half, out-of-place or in-place, from its time on; -1: not used
	halves    int
	hasLabels bool // RCCL's algorithm, protocol and channels follow
	// inPlaceOnly: the only half is the in-place one (rccl-tests -O 0).
	inPlaceOnly bool
}

// layoutOf reads the line that names the columns, with or without its #.
func layoutOf(tokens [][]byte) (l layout, ok bool) {
	l.known = true
	var halves [][]string
	for _, t := range tokens {
		switch name := string(t); {
		case name == "#" || l.hasLabels:
		case name == "time" || name == "cputime":
			halves = append(halves, []string{name})
		case name == "algo":
			l.hasLabels = true
		case len(halves) > 0:
			halves[len(halves)-1] = append(halves[len(halves)-1], name)
		default:
			l.names = append(l.names, name)
		}
	}
	l.halves = len(halves)
	if l.halves == 0 || l.halves > 2 || !slices.Equal(halves[0], halves[l.halves-1]) {
		return l, false
	}
	told := map[string]bool{}
	for _, name := range halves[0] {
		if name == "error" || name == "res" {
			name = "." + name
		}
		c, isColumn := columnByName[name]
		if !isColumn {
			c = -1
		} else if told[columns[c].name] = true; columns[c].name[0] == '.' {
			told["wrong"] = true
		}
		l.half = append(l.half, c)
	}
	hasSize := slices.ContainsFunc(l.names, func(name string) bool { return name == "size" || name == "bytes" })
	return l, hasSize && told["algbw_gbps"] && told["busbw_gbps"] && told["wrong"]
}

// plainLayout is the layout without a header. RCCL's labels may follow.
var plainLayout = layout{half: []int{columnByName["time"], columnByName["algbw"], columnByName["busbw"],
	columnByName[".either"]}, halves: 2, hasLabels: true}

// beginsRow reports whether tokens are the start of a row: size, count, type.
func beginsRow(tokens [][]byte) bool {
	return len(tokens) >= 3 && isNumber(tokens[0]) && isNumber(tokens[1]) && isWord(tokens[2]) && len(tokens[2]) <= 12
}

// readRow reads the times of one line. whole: it has all; nil: it is no row. A line may leave out columns that its
// collective does not have, so halves are counted from the right. Of a row that was cut, whole halves are kept.
func (l *layout) readRow(tokens [][]byte, into *[2]row) (rows []row, whole bool) {
	if !beginsRow(tokens) {
		return nil, false
	}
	base := newRow(0)
	var errs [3]error
	base.DType = kept(string(tokens[2]))
	base.Bytes, errs[0] = strconv.ParseUint(string(tokens[0]), 10, 64)
	base.count, errs[1] = strconv.ParseUint(string(tokens[1]), 10, 64)
	rest := tokens[3:]
	for len(rest) > 0 && bytes.IndexByte(rest[len(rest)-1], ':') > 0 { // -S: date and time
		rest = rest[:len(rest)-1]
		if k := len(rest); k > 0 && bytes.Count(rest[k-1], []byte("-")) == 2 {
			rest = rest[:k-1]
		}
	}
	rest = l.takeLabels(rest, &base)
	halves, one := l.halves, len(rest)-len(l.half)
	// What is left of the halves: redop and root, where the row has them.
	names := len(rest) - halves*len(l.half)
	if !l.known && names < 0 && one >= 0 && one <= 2 {
		halves, names = 1, one
	}
	if names < 0 || names > 2 { // it was cut, or has more behind it
		for names = 0; names < min(len(rest), 2) && (names == 0 && isWord(rest[0]) || isInteger(rest[names])); names++ {
		}
	}
	for _, t := range rest[:names] {
		if !isWord(t) {
			base.root, errs[2] = strconv.Atoi(string(t))
		} else if string(t) != "none" {
			base.RedOp = kept(string(t))
		}
	}
	if cmp.Or(errs[:]...) != nil {
		return nil, false
	}
	base.blankRedOp = 3+names < len(l.names)
	rows = into[:0]
	for rest = rest[names:]; len(rows) < halves && len(rest) >= len(l.half); rest = rest[len(l.half):] {
		rows = append(rows, base)
		r := &rows[len(rows)-1]
		r.InPlace = len(rows) == 2 || l.known && l.inPlaceOnly
		for i, c := range l.half {
			if c >= 0 {
				columns[c].read(r, string(rest[i])) // what is no time is none
			}
		}
	}
	return rows, len(rows) == halves
}

func isInteger(t []byte) bool {
	_, err := strconv.Atoi(string(t))
	return err == nil
}

// takeLabels cuts RCCL's algorithm, protocol and channels off a row.
func (l *layout) takeLabels(rest [][]byte, r *row) [][]byte {
	k := len(rest)
	if k < 3 || !l.hasLabels || !isWord(rest[k-3]) || !isWord(rest[k-2]) {
		return rest
	}
	if n, err := strconv.Atoi(string(rest[k-1])); err == nil || string(rest[k-1]) == "N/A" {
		if cell := CellNamed(string(rest[k-3]), string(rest[k-2])); cell.Known() {
			r.Config = nccl.Config{Cell: cell, Channels: max(n, 0)}
		}
		return rest[:k-3]
	}
	return rest
}
